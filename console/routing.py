"""Sockets under /ws/, and what a person may see of each live subject.

Subjects are "c/<cluster>/…" (rows named after groups and topics), "jobs", "job/<id>" and "approvals" (rows that name
their cluster).
"""

import time
from functools import partial
from importlib import import_module
from typing import Any

from channels.auth import AuthMiddlewareStack, get_user
from channels.db import database_sync_to_async
from channels.routing import URLRouter
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.urls import path

from console.access import rules
from console.access.models import Verb
from console.access.name_scope import view_scope
from console.access.session.idle_session import is_idle
from console.live.hub import LiveSocket, SocketScope
from console.live.update import View
from console.message.sockets import MessageSocket
from console.topic.selectors import without_hidden_groups
from console.web.socket_origin import OwnOrigin


class SessionPermits:
    """Checks the browser's session and the person's grants at each call, not only at connect."""

    async def signed_in(self, scope: SocketScope) -> bool:
        user = await self._user(scope)
        return bool(user.is_authenticated and user.is_active)

    async def view(self, scope: SocketScope, subject: str) -> View | None:
        user = await self._user(scope)
        return await database_sync_to_async(view_of)(user, subject)

    async def _user(self, scope: SocketScope) -> Any:
        # scope["session"] is a lazy object of Channels and keeps what it read; a fresh store reads again.
        store = import_module(settings.SESSION_ENGINE).SessionStore
        session = store(scope["session"].session_key)
        scope_of_session: Any = {"session": session}  # get_user reads nothing else
        user = await get_user(scope_of_session)
        return AnonymousUser() if is_idle(session, time.time()) else user  # loaded by get_user


def view_of(user: Any, subject: str) -> View | None:
    """Return what ``user`` may see of a subject; None for nothing or a subject that does not exist."""
    if user.is_authenticated and not user.is_superuser:
        rules.allowances_of(user)  # the one query, now: rows are judged in the event loop
    kind, _, rest = subject.partition("/")
    if kind == "c":
        return _view_of_cluster(user, *rest.split("/", 2))
    if kind == "approvals":
        return View(
            lambda _, row: row is None or rules.may(user, row["verb"], row["cluster"], row["subject"])
        )
    if kind == "jobs" or (kind == "job" and rest):
        return View(lambda _, row: row is None or rules.may(user, Verb.VIEW, row["cluster"], row["subject"]))
    return None


def _view_of_cluster(user: Any, cluster: str, what: str = "", name: str = "") -> View | None:
    if rules.may(user, Verb.VIEW, cluster):
        return View()
    if what in ("group", "topic") and rules.may(user, Verb.VIEW, cluster, name):
        return View()
    if what in ("groups", "topics") and rules.may_see_cluster(user, cluster):
        scope = view_scope(user, cluster)
        redacted = partial(without_hidden_groups, scope=scope) if what == "topics" else None
        return View(lambda key, _: scope.covers(key), redacted)
    if what in ("collector", "reports") and rules.may_see_cluster(user, cluster):
        return View()  # how old the figures are, and runs of reports: neither names a group or a topic
    return None


_live: Any = LiveSocket.as_asgi(permits=SessionPermits())
_messages: Any = MessageSocket.as_asgi(permits=SessionPermits())
_routes: Any = [path("ws/live", _live), path("ws/c/<str:cluster>/messages", _messages)]
websocket_application: Any = OwnOrigin(AuthMiddlewareStack(URLRouter(_routes)))
