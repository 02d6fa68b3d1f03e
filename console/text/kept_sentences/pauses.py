"""Words of pausing and resuming a group."""

from django.utils.translation import gettext_noop as _

SENTENCES = (
    _(
        "%(brokers)s cannot pause a group on a topic: its release does not know the request (353, of RocketMQ 5.0)."
    ),
    _("%(broker)s does not show it for %(topic)s"),
    _("%(broker)s has no settings of %(group)s to save with it: a restart would pause it again"),
    _("%(broker)s let %(topic)s be read too: paused again at once"),
    _("%(names)s {is|are} read though paused"),
    _("%(number)s message(s) waiting"),
    _("%(number)s message(s) waiting there until it is resumed."),
    _("%(number)s topics are more than one plan takes (%(most)s). Name some of them."),
    _("%(topic)s is not among these topics: what failed comes again after its delay."),
    _("%(topic)s may be read on %(broker)s, it was to stay paused"),
    _("%(topic)s on %(broker)s is paused since the plan was made"),
    _("%(topic)s on %(broker)s may be read again since the plan was made"),
    _("%(topics)s at %(broker)s {stays|stay} paused"),
    _(
        "Apache's brokers let them be read with the first that is resumed: they are paused again at once, and a pull "
        "may come between."
    ),
    _("Arriving"),
    _("At least %(number)s message(s) waiting"),
    _("At least %(number)s message(s) waiting there until it is resumed."),
    _(
        "Brokers ask for this permission only when push members pull. consumeEnable = false, in the group's settings, "
        "stops all."
    ),
    _("brokers"),
    _("By %(person)s."),
    _("changed since by somebody else"),
    _("Choose at least one topic."),
    _("Choose other topics or brokers"),
    _("fileReservedTime %(hours)s h less the age of the oldest unread message"),
    _("fileReservedTime could not be read"),
    _("How fast the lag will grow is unknown"),
    _("How long unread messages are kept is unknown"),
    _("Its %(how)s members are not held"),
    _("Kept unread, hours"),
    _("Members take them as fast as they can: think of what they call."),
    _("messages a minute, at all brokers"),
    _("No topic is paused for %(group)s."),
    _("Not by this console."),
    _("Nothing is read until one comes."),
    _("Nothing is written there at present"),
    _("Nothing would change: %(group)s may read this already."),
    _("Nothing would change: this is paused for %(group)s already."),
    _("Pause reading"),
    _("Paused"),
    _("Paused on %(topic)s"),
    _("reading"),
    _("Resume reading"),
    _("Retention reaches the oldest unread message in about %(time)s"),
    _("Retries go on"),
    _("So the lag would stay as it is."),
    _("Stop the whole group (consumeEnable)"),
    _("Stop the whole group there with consumeEnable, in its settings, or choose other brokers."),
    _("That is %(number)s in an hour, at the present rate of the producers."),
    _("The age of the oldest, or fileReservedTime of a broker, is not known."),
    _("The lag will grow by %(number)s message(s) a minute"),
    _("The lag will grow by at least %(number)s message(s) a minute"),
    _("The rates of these topics are not known yet."),
    _("The whole group is stopped"),
    _(
        "Their next pull is refused (NO_PERMISSION, 16) and tried again every few seconds; what they hold by then is "
        "still handled."
    ),
    _(
        "Their offsets moved since. Members that pull by themselves, or bring their filter with each pull, are not "
        "asked for this permission: consumeEnable = false, in the group's settings, stops all."
    ),
    _("Then a broker may delete them unread (fileReservedTime); a disk that fills deletes sooner."),
    _(
        "This will let %(group)s read %(topics)s again, at %(brokers)s: its members go on where they stood, within "
        "seconds."
    ),
    _(
        "This will pause %(group)s on %(topics)s, at %(brokers)s: its members are given nothing more of it. Its "
        "offsets stay, and messages wait until it is resumed."
    ),
    _("This would change nothing for %(group)s."),
    _("Those that come are held too."),
    _("Waiting there"),
)
