"""Words of consume modes."""

from django.utils.translation import gettext_noop as _

SENTENCES = (
    _("%(broker)s shows %(mode)s"),
    _("Choose another topic or mode"),
    _("consume mode"),
    _("Mode"),
    _("POP: members share queues"),
    _("POP: over how many further members a queue is shared; empty or 0: over all"),
    _("PULL: each queue has one member"),
    _("Set the consume mode"),
    _("Shared by"),
    _(
        "The brokers keep what is not acknowledged invisible for a while and give it out again, failures "
        "by %(topic)s; the offset moves when all before it is acknowledged."
    ),
    _("they did not say how they rebalance: %(names)s"),
    _("they divide the queues themselves, or know no POP: %(names)s"),
    _("they let the broker divide the queues: %(names)s"),
    _("This will set how members of %(group)s get messages of %(topic)s: %(mode)s at %(brokers)s."),
    _(
        "This will set how members of %(group)s get messages of %(topic)s: POP, shared by %(share)s at %(brokers)s."
    ),
)
