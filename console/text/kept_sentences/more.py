"""Further reasons and refusals."""

from django.utils.translation import gettext_noop as _

SENTENCES = (
    _("%(address)s did not answer request %(code)s within %(number)s ms"),
    _("%(address)s is not available: %(why)s"),
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
    _("%(slow)s of %(total)s in the last minute took over 10 ms"),
    _("%(value)s over %(span)s"),
    _("A whole number"),
    _("add cluster"),
    _("apply refused"),
    _("All"),
    _("are skipped"),
    _("broker"),
    _("change schedule"),
    _("change SLO"),
    _("Computed %(time)s UTC by run %(run)s, code %(code)s."),
    _("computing %(number)s hour(s)"),
    _("counted as failed"),
    _("create token"),
    _("cluster not added"),
    _("change cluster"),
    _("set role"),
    _("remove role"),
    _("add person"),
    _("change person"),
    _("remove person"),
    _("add team"),
    _("change team"),
    _("remove team"),
    _("add grant"),
    _("change grant"),
    _("remove grant"),
    _("dead letter replay"),
    _("delay level %(level)s: delivered up to, of"),
    _("Deleting is offered %(hours)s hours later"),
    _("how late the timer reads its wheel"),
    _("how long it has run"),
    _("lite pulls"),
    _("long polls that ended empty, no harm: %(figures)s"),
    _("master"),
    _("ms"),
    _("nobody (%(perm)s)"),
    _("Nothing is sent"),
    _("pulls per second over 10 s, 1 m, 10 m"),
    _("Put it in quarantine first: it is still open"),
    _("Put it in quarantine first: it is still open on %(where)s"),
    _("queues"),
    _("remove body schema"),
    _("remove cluster"),
    _("revoke token"),
    _("run report"),
    _("Sampled every %(step)s, the largest gap is %(gap)s."),
    _("sends are refused until then, epoch ms; 0: never"),
    _("set body schema"),
    _("set password"),
    _("sign in"),
    _("sign in by link"),
    _("sign-in failed"),
    _("password change failed"),
    _("since it began to count; %(today)s today, %(yesterday)s yesterday"),
    _("since the broker began to count"),
    _("sorted into the wheel"),
    _("the name servers do not answer: %(why)s"),
    _("The search failed; the server's log says why."),
    _(
        "The window was not over when this was computed: figures up to %(time)s UTC. Its next run "
        "replaces them."
    ),
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
    _("it closed the connection"),
    _("it was silent for %(time)s while requests waited"),
    _("no connection within %(number)s ms"),
    _("offline"),
    _("queue stuck"),
    _("reset"),
    _("retention"),
    _("slow"),
    _("surge"),
    _("Timer messages not yet sorted in"),
    _("unclear"),
    _("UTC"),
    _("waiting: another report is being computed"),
    _("waiting: the task queue does not answer, check Redis"),
    _("waiting: the worker stopped, taking it up again"),
    _("will be sent once more"),
    _("with a delivery time of their own"),
    _("writes since the start"),
    _("writing rows"),
    _("You run %(number)s searches, tails or exports already: stop one of them first."),
    _("Its clock is %(time)s ahead of ours"),
    _("Its clock is %(time)s behind ours"),
    _(
        "Seen by the store times of messages that have just come in; ages shown here are corrected by it. Retention, "
        "delays and timestamps of producers are not: let NTP set the clocks of brokers and of this machine."
    ),
    # What moved between a plan and its button (409).
    _("%(queue)s moved from %(before)s to %(after)s, backwards"),
    _("%(queue)s moved from %(before)s to %(after)s, more than the group's own pace on this queue explains"),
    _("%(broker)s has no master any more"),
    _("A reset is pending on %(queues)s"),
    _("No offset is committed on %(queues)s"),
    _(
        "At least %(number)s message(s) stored there, counted in no lag. Where a client begins to read is its own "
        "setting (ConsumeFromWhere)."
    ),
    _(
        "%(number)s message(s) waiting there. The offset is where somebody set it, which is no progress: members that "
        "are online take it with their next pull, others when they return."
    ),
    _(
        "The disk of %(folder)s is full, %(free)s KiB of %(total)s MiB are free: make room, everything goes on by "
        "itself"
    ),
    # why a file of report rows is not read
    _("it cannot be read now (%(why)s)"),
    _("it has %(number)s bytes with another checksum than when it was made"),
    _("it is gone: it was removed from the storage"),
    _("its storage does not answer (%(why)s)"),
    _("the time asked for is longer than one question reads; ask for a shorter one"),
)
