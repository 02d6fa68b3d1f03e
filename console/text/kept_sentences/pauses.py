"""Words of pausing and resuming a group."""

from django.utils.translation import gettext_noop as _

SENTENCES = (
    _(
        "%(brokers)s cannot pause a group on a topic: its release does not know the request (353, of RocketMQ 5.0)."
    ),
    _("%(names)s {is|are} read though paused"),
    _("%(number)s message(s) waiting there until it is resumed."),
    _("Arriving"),
    _("At least %(number)s message(s) waiting there until it is resumed."),
    _("By %(person)s."),
    _("Choose at least one topic."),
    _("Choose other topics or brokers"),
    _("Not by this console."),
    _("Pause reading"),
    _("Paused"),
    _("Paused on %(topic)s"),
    _("reading"),
    _("Resume reading"),
    _("Stop the whole group (consumeEnable)"),
    _("Stop the whole group there with consumeEnable, in its settings, or choose other brokers."),
    _("The whole group is stopped"),
    _(
        "Their offsets moved since. Members that pull by themselves, or bring their filter with each pull, are not "
        "asked for this permission: consumeEnable = false, in the group's settings, stops all."
    ),
)
