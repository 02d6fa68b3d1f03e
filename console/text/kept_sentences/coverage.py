"""Words of what a plan covers and leaves out, of resets since, and of releases that look up times in their own way."""

from django.utils.translation import gettext_noop as _

SENTENCES = (
    _("%(broker)s does not answer"),
    _("%(broker)s does not answer."),
    _("%(broker)s does not answer and holds %(number)s of %(total)s queues"),
    _("%(broker)s does not answer and holds %(number)s of %(total)s queues."),
    _("%(broker)s does not answer and holds %(number)s of %(total)s queues: %(reason)s"),
    _("%(broker)s has not answered since %(time)s."),
    _("%(broker)s has not answered since %(time)s and holds %(number)s of %(total)s queues"),
    _("%(broker)s has not answered since %(time)s and holds %(number)s of %(total)s queues."),
    _("%(broker)s has not answered since %(time)s and holds %(number)s of %(total)s queues: %(reason)s"),
    _("%(broker)s has not answered since %(time)s and was never read, so what it holds is unknown"),
    _("%(broker)s has not answered since %(time)s and was never read, so what it holds is unknown."),
    _("%(names)s do not answer."),
    _("%(names)s do not answer and hold %(number)s of %(total)s queues"),
    _("%(names)s do not answer and hold %(number)s of %(total)s queues."),
    _(
        "Verified: the brokers show the target on %(covered)s of %(total)s brokers; %(names)s left out, accepted by "
        "%(by)s"
    ),
    _(
        "Verified: the brokers show the target on %(covered)s of %(total)s queues; %(names)s left out, accepted by "
        "%(by)s"
    ),
)
