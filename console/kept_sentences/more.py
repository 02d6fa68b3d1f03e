"""Further reasons and refusals."""

from django.utils.translation import gettext_noop as _

SENTENCES = (
    _("%(names)s and %(last)s"),
    _("%(number)s group(s) {is|are} online of %(total)s: %(names)s"),
    _("%(number)s members online"),
    _("%(number)s searches run at the moment; try again in a minute."),
    _("%(pace)s, %(arriving)s, it is level again in about %(time)s, once members are online."),
    _("%(pace)s, %(arriving)s, it is level again in about %(time)s."),
    _("%(pace)s, %(arriving)s, it would not become level again, once members are online."),
    _("%(pace)s, %(arriving)s, it would not become level again."),
    _("%(pace)s, that takes about %(time)s, once members are online."),
    _("%(pace)s, that takes about %(time)s."),
    _("%(sentence)s."),
    _("%(value)s over %(span)s"),
    _("%(what)s, which then go nowhere: there is no other broker"),
    _("A whole number"),
    _("are skipped"),
    _("At %(rate)s messages a second, its best minute of the last hour"),
    _("At its present rate of %(rate)s messages a second"),
    _("counted as failed"),
    _("Deleting is offered %(hours)s hours later"),
    _("lite pulls"),
    _("nobody"),
    _("nobody (%(perm)s)"),
    _("Nothing is sent"),
    _("Put it in quarantine first: it is still open"),
    _("Put it in quarantine first: it is still open on %(where)s"),
    _("stays as it is"),
    _("The name servers do not answer: %(why)s"),
    _("the name servers do not answer: %(why)s"),
    _("The search failed; the server's log says why."),
    _("There is no topic %(topic)s on %(cluster)s, or none that you may look at."),
    _("They %(deed)s."),
    _("This will mark %(number)s dead letter(s) of %(group)s as handled"),
    _("This will mark %(number)s dead letter(s) of %(group)s as handled, dead since %(time)s"),
    _(
        "This will send %(number)s dead letter(s) of %(group)s again, dead since %(time)s, %(where)s, "
        "%(speed)s."
    ),
    _(
        "This will send %(number)s dead letter(s) of %(group)s again, dead since %(time)s, %(where)s, "
        "%(speed)s: %(takes)s."
    ),
    _("Timer messages not yet sorted in"),
    _("UTC"),
    _("while %(rate)s a second come in"),
    _("will be sent once more"),
    _("You run %(number)s searches, tails or exports already: stop one of them first."),
)
