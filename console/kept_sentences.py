"""The English of every sentence that code writes and pages translate: see `console.sentences`."""

from django.utils.translation import gettext_noop as _

SENTENCES = frozenset(
    (
        _("topic"),
        _("group"),
    )
)
