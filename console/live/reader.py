"""One reader of live subjects, a browser or a script: what it may see, and the frames that it is sent.

A frame is JSON, the same on the socket (`console.live.socket`) and in the stream of REST (`api.stream`): all rows
of a subject first and after every gap, then changes, where null removes a row.

    {"subject": "c/local/groups", "seq": 17, "at_ms": 1790000000000, "full": true, "rows": {"billing": {…}}}
    {"subject": "c/local/groups", "seq": 19, "at_ms": 1790000005000, "full": false, "rows": {"billing": null}}
    {"subject": "c/other/groups", "error": "forbidden"}          also when a right was taken away
    {"redis": "away"}, {"redis": "back"}: no updates for now; everything was sent anew
"""

import asyncio
from typing import Protocol

import orjson

from console.live.hub import Mailbox, Notice, hub
from console.live.update import Update, View
from console.text.locale import Locale

# Of one reader; a page subscribes to two or three.
SUBJECTS_MAX = 50
# Proxies close connections that are silent for 60 s.
PING_EVERY_S = 20.0
# A person who signed out or lost a grant receives nothing new after this.
RECHECK_EVERY_S = 60.0
# Without progress in sending one message for this long, the reader is gone or does not read.
STALL_LIMIT_S = 20.0


class Viewer(Protocol):
    """Whose eyes a reader has. Each call checks anew: sessions, tokens and grants end."""

    async def signed_in(self) -> bool:
        """Whether the session or token still belongs to an active person."""

    async def view(self, subject: str) -> View | None:
        """Return what the person may see of the subject; None for nothing."""


class Reader:
    """The subjects that one viewer reads, in one event loop."""

    def __init__(self, viewer: Viewer, locale: Locale) -> None:
        self._viewer, self._locale = viewer, locale
        self._mailbox = Mailbox()
        self._views: dict[str, View] = {}

    def __repr__(self) -> str:
        return f"<Reader of {len(self._views)} subjects, {self._mailbox!r}>"

    @property
    def has_subjects(self) -> bool:
        return bool(self._views)

    async def join(self, subject: str, keys: frozenset[str] | None = None, shown: int | None = None) -> None:
        """Begin a subject, or begin it anew with other keys; a refusal is a frame. `shown`: see `Hub.join`."""
        if subject not in self._views and len(self._views) >= SUBJECTS_MAX:
            self._refuse(subject, "too many subjects")
            return
        view = await self._viewer.view(subject)
        if view is None:
            self._refuse(subject, "forbidden")
            return
        self._mailbox.drop(subject)
        if keys is not None:
            self._mailbox.keys[subject] = keys
        self._views[subject] = view
        await hub().join(subject, self._mailbox, shown)

    def leave(self, subject: str) -> None:
        """End a subject."""
        if self._views.pop(subject, None) is not None:
            hub().leave(subject, self._mailbox)
            self._mailbox.drop(subject)

    def close(self) -> None:
        """End every subject."""
        for subject in list(self._views):
            self.leave(subject)

    async def next_frame(self) -> str:
        """Wait for the next frame; one subject's updates that waited meanwhile are one."""
        while True:
            taken = await self._mailbox.take()
            if isinstance(taken, Notice):
                return orjson.dumps(taken.body).decode()
            update = self._visible(taken)
            if update is not None:
                return update.frame(self._locale)

    async def watch_rights(self) -> None:
        """Check rights once a minute, and end subjects that may not be seen; return when signed out."""
        while True:
            await asyncio.sleep(RECHECK_EVERY_S)
            if not await self._viewer.signed_in():
                return
            for subject in list(self._views):
                view = await self._viewer.view(subject)
                if view is None:
                    self.leave(subject)
                    self._refuse(subject, "forbidden")
                elif subject in self._views:
                    self._views[subject] = view

    def _refuse(self, subject: str, error: str) -> None:
        self._mailbox.notify(Notice(subject, {"subject": subject, "error": error}))

    def _visible(self, update: Update) -> Update | None:
        """Return the update as the viewer may see it; None when nothing of it is left to send."""
        view = self._views.get(update.subject)
        if view is None or (view.sees is None and view.redacted is None):
            return update if view else None
        update = update.only(view)
        return update if update.pieces or update.full else None
