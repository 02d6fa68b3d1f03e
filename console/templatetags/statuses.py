"""How a status looks: its colour, shape and word. `static/js/figures.js` holds the same table."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

STATUSES: dict[str, tuple[str, str, str]] = {
    # LagStatus code → colour family, shape in the sprite, word. figures.js holds the same table.
    "OK": ("ok", "ok", gettext_noop("OK")),
    "CATCHING_UP": ("catch", "catch", gettext_noop("Catching up")),
    "FALLING_BEHIND": ("warn", "behind", gettext_noop("Falling behind")),
    "STALLED": ("bad", "stalled", gettext_noop("Stalled")),
    "STOPPED": ("bad", "stopped", gettext_noop("Stopped")),
    "REWOUND": ("catch", "rewound", gettext_noop("Rewound")),
    "SKIPPED": ("warn", "skipped", gettext_noop("Skipped")),
    "HANDLED": ("offline", "skipped", gettext_noop("Handled")),
    "LOST": ("bad", "lost", gettext_noop("Lost")),
    "OFFLINE": ("offline", "offline", gettext_noop("Offline")),
    "NEVER_COMMITTED": ("offline", "never", gettext_noop("Never committed")),
    "INVALID": ("unknown", "invalid", gettext_noop("Invalid")),
    "UNKNOWN": ("unknown", "unknown", gettext_noop("Unknown")),
    "PARTIAL": ("unknown", "unknown", gettext_noop("Partial")),
    # Plans and jobs use the same parts.
    "DRAFT": ("offline", "never", gettext_noop("Plan")),
    "UNAPPROVED": ("warn", "stalled", gettext_noop("Waiting for approval")),
    "APPROVED": ("ok", "ok", gettext_noop("Approved")),
    "APPLIED": ("ok", "ok", gettext_noop("Applied")),
    "EXPIRED": ("offline", "offline", gettext_noop("Expired")),
    "DISCARDED": ("offline", "offline", gettext_noop("Discarded")),
    "QUEUED": ("offline", "never", gettext_noop("Queued")),
    "WAITING": ("warn", "stalled", gettext_noop("Waiting for a worker")),
    "RUNNING": ("catch", "catch", gettext_noop("Running")),
    "PAUSED": ("warn", "stalled", gettext_noop("Paused")),
    "VERIFYING": ("catch", "catch", gettext_noop("Verifying")),
    "SUCCEEDED": ("ok", "ok", gettext_noop("Done")),
    "FAILED": ("bad", "lost", gettext_noop("Failed")),
    "CANCELLED": ("offline", "offline", gettext_noop("Cancelled")),
    # Rows of a replay's ledger.
    "PENDING": ("offline", "never", gettext_noop("To go")),
    "SENT": ("ok", "ok", gettext_noop("Sent")),
}
TIME_TONES = {
    "LOST": "t-bad",
    "STALLED": "t-bad",
    "STOPPED": "t-bad",
    "FALLING_BEHIND": "t-warn",
}


def status_parts(code: str) -> tuple[str, str, str]:
    """Return colour family, shape and word of a status; an unlisted one is its own word."""
    family, shape, word = STATUSES.get(code, ("unknown", "unknown", code))
    return family, shape, _(word) if word else ""


def named_glyph(family: str, shape: str, word: str) -> SafeString:
    """Render a shape alone, with its word for screen readers."""
    return format_html(
        '<span class="glyph g-{} s-{}" role="img" aria-label="{}"></span>', family, shape, word
    )


def named_badge(family: str, shape: str, words: str) -> SafeString:
    """A badge of no status: `{% named_badge "offline" "never" _("No round yet") %}`."""
    return format_html('<span class="badge badge--{} s-{}">{}</span>', family, shape, words)
