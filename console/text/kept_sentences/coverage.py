"""Words of what a plan covers and leaves out, of resets since, and of releases that look up times in their own way."""

from django.utils.translation import gettext_noop as _

SENTENCES = (
    _("%(broker)s answers again and is not part of this plan"),
    _("%(broker)s does not answer"),
    _("%(broker)s does not answer."),
    _("%(broker)s does not answer and holds %(number)s of %(total)s queues"),
    _("%(broker)s does not answer and holds %(number)s of %(total)s queues."),
    _("%(broker)s does not answer and holds %(number)s of %(total)s queues: %(reason)s"),
    _("%(broker)s has not answered since %(time)s"),
    _("%(broker)s has not answered since %(time)s."),
    _("%(broker)s has not answered since %(time)s and holds %(number)s of %(total)s queues"),
    _("%(broker)s has not answered since %(time)s and holds %(number)s of %(total)s queues."),
    _("%(broker)s has not answered since %(time)s and holds %(number)s of %(total)s queues: %(reason)s"),
    _("%(broker)s has not answered since %(time)s and was never read, so what it holds is unknown"),
    _("%(broker)s has not answered since %(time)s and was never read, so what it holds is unknown."),
    _("%(broker)s is gone"),
    _("%(broker)s is left out"),
    _("%(broker)s is not covered"),
    _("%(name)s is known on %(brokers)s alone"),
    _("%(name)s went back by %(number)s messages at %(time)s, after this plan was made"),
    _("%(name)s jumped ahead by %(number)s messages at %(time)s, after this plan was made"),
    _("%(names)s do not answer"),
    _("%(names)s do not answer."),
    _("%(names)s do not answer and hold %(number)s of %(total)s queues"),
    _("%(names)s do not answer and hold %(number)s of %(total)s queues."),
    _("%(number)s queue(s) of %(group)s {was|were} moved at %(time)s by %(by)s, after this plan was made"),
    _("%(number)s queue(s) of %(group)s {was|were} moved at %(time)s, after this plan was made"),
    _("%(queue)s stands at %(target)s, where the broker's own search led, not at %(planned)s"),
    _("There is no broker %(name)s; there is %(known)s."),
    _(
        "Verified: the brokers show the target on %(covered)s of %(total)s brokers; %(names)s left out, accepted by "
        "%(by)s"
    ),
    _(
        "Verified: the brokers show the target on %(covered)s of %(total)s queues; %(names)s left out, accepted by "
        "%(by)s"
    ),
    _("Wait until it answers, or accept that the change leaves it out."),
    _("Wait until they answer, or accept that the change leaves them out."),
    _("What it has stays as it is, and comes back with it."),
    _("no master of it is registered with the name server"),
    _("no message of %(queue)s can be read at %(offset)s, so its time is unknown"),
    _("no name server lists a master of it"),
    _("no name server lists it"),
    _("not covered"),
    _("this release goes to the nearest message; the first at that time is %(offset)s"),
)
