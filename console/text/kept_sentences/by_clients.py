"""Words of groups whose figures are their clients' word: broadcasting and POP; and of queues that a person paused."""

from django.utils.translation import gettext_noop as _

SENTENCES = (
    _("%(told)s of %(number)s clients told how far they are"),
    _("A client that does not tell may be further behind than those that do: figures read “at least”."),
    _("%(client)s: lost messages"),
    _("%(client)s: stands still"),
    _("%(client)s: stopped consuming"),
    _("%(client)s: contradictory"),
    _("%(client)s: falls behind"),
    _("%(client)s: jumped ahead"),
    _("%(client)s: moved back"),
    _("Messages are taken and not acknowledged"),
    _("Look at the clients: after its invisible time a message comes back to the group."),
)
