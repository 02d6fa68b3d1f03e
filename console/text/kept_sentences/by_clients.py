"""Words of groups whose figures are their clients' word: broadcasting and POP; and of queues that a person paused."""

from django.utils.translation import gettext_noop as _

SENTENCES = (
    _("broadcasting: the furthest behind of %(number)s client(s), by their own word"),
    _(
        "broadcasting: the furthest behind of %(number)s client(s), by their own word. %(client)s: %(queue)s: "
        "%(reason)s"
    ),
    _("broadcasting: %(told)s of %(number)s clients told their offsets; others may be further behind"),
    _(
        "broadcasting: %(told)s of %(number)s clients told their offsets; others may be further behind. %(client)s: "
        "%(queue)s: %(reason)s"
    ),
    _("broadcasting: no client is connected, and each keeps its own offsets"),
    _("paused, the broker gives the group nothing of this topic; %(reason)s"),
    _(
        "POP: members hold %(number)s messages, and what they hold has not become less for %(time)s: none is seen to "
        "be acknowledged"
    ),
    _(
        "POP: messages that members took come back unacknowledged, and not every member tells what it holds: some "
        "fail, or a member is stuck"
    ),
    _("the client did not tell where it is, or the broker how far the queue reaches"),
    _("of a client's queues only the oldest waiting message is dated"),
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
