"""Words of consume modes."""

from django.utils.translation import gettext_noop as _

SENTENCES = (
    _("%(broker)s cannot be set to POP: %(reason)s."),
    _(
        "%(broker)s knows no consume modes: they are of RocketMQ 5.0 (requests 401, 402). Members there "
        "always pull."
    ),
    _("%(broker)s shows %(mode)s"),
    _("%(number)s member(s) will follow within 20 s"),
    _("A retry topic is always pulled."),
    _("by the broker's default so far"),
    _("Choose another topic or mode"),
    _("consume mode"),
    _("it answers no POP while its timerWheelEnable is false"),
    _("It counts for members with clientRebalance = false that come."),
    _("it serves no POP yet, and members set to it would get nothing"),
    _("members"),
    _("Members ask any of them, so what they do would change from one question to the next: %(says)s."),
    _("Members not known"),
    _("Members that follow it"),
    _("Members that ignore it"),
    _("Mode"),
    _("Name the topic."),
    _("No broker has both the topic %(topic)s and the group %(group)s."),
    _("No member that is online follows it"),
    _("POP: members share queues"),
    _("POP: over how many further members a queue is shared; empty or 0: over all"),
    _("Popped messages are counted by the brokers"),
    _("PULL: each queue has one member"),
    _("Set the consume mode"),
    _("Shared by"),
    _(
        "The brokers keep what is not acknowledged invisible for a while and give it out again, failures "
        "by %(topic)s; the offset moves when all before it is acknowledged."
    ),
    _("The brokers will not agree"),
    _("the mode on %(broker)s is %(mode)s since the plan was made"),
    _("The mode is PULL or POP."),
    _("They ask a broker every 20 s what to read; what they hold is finished first."),
    _("they did not say how they rebalance: %(names)s"),
    _(
        "They divide the queues among themselves (clientRebalance is true, as by default) and go on "
        "pulling; the mode counts for members with clientRebalance = false."
    ),
    _("they divide the queues themselves, or know no POP: %(names)s"),
    _("they let the broker divide the queues: %(names)s"),
    _("This will set how members of %(group)s get messages of %(topic)s: %(mode)s at %(brokers)s."),
    _(
        "This will set how members of %(group)s get messages of %(topic)s: POP, shared by %(share)s at %(brokers)s."
    ),
)
