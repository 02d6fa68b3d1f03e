"""Sockets under /ws/, and what the person or token of a live reader may see of each subject.

Subjects are "c/<cluster>/…" (rows named after groups and topics), "jobs", "job/<id>" and "approvals" (rows that name
their cluster).
"""

from __future__ import annotations

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
from console.access import services as access_services
from console.access.errors import TokenInvalid
from console.access.models import Verb
from console.access.name_scope import view_scope
from console.access.rules import TokenPrincipal
from console.access.session.idle_session import is_idle
from console.live.socket import LiveSocket, SocketScope
from console.live.update import View
from console.message.sockets import MessageSocket
from console.topic.selectors import without_hidden_groups
from console.web.socket_origin import OwnOrigin


class SessionViewer:
    """The person of a browser's session, which is read at each call, with its grants."""

    def __init__(self, session_key: str | None) -> None:
        self._session_key = session_key

    @classmethod
    def of_socket(cls, scope: SocketScope) -> SessionViewer:
        # scope["session"] is a lazy object of Channels and keeps what it read; a fresh store reads again.
        return cls(scope["session"].session_key)

    async def signed_in(self) -> bool:
        user = await self._user()
        return bool(user.is_authenticated and user.is_active)

    async def view(self, subject: str) -> View | None:
        return await database_sync_to_async(view_of)(await self._user(), subject)

    async def _user(self) -> Any:
        session = import_module(settings.SESSION_ENGINE).SessionStore(self._session_key)
        scope_of_session: Any = {"session": session}  # get_user reads nothing else
        user = await get_user(scope_of_session)
        return AnonymousUser() if is_idle(session, time.time()) else user  # loaded by get_user


class TokenViewer:
    """The principal of an API token, which is read at each call."""

    def __init__(self, token_id: int) -> None:
        self._token_id = token_id

    async def signed_in(self) -> bool:
        return await database_sync_to_async(self._principal)() is not None

    async def view(self, subject: str) -> View | None:
        return await database_sync_to_async(self._view)(subject)

    def _view(self, subject: str) -> View | None:
        principal = self._principal()
        return None if principal is None else view_of(principal, subject)

    def _principal(self) -> TokenPrincipal | None:
        try:
            return access_services.principal_of_token(self._token_id)
        except TokenInvalid:
            return None


def view_of(user: Any, subject: str) -> View | None:
    """Return what ``user`` may see of a subject; None for nothing or a subject that does not exist."""
    owner = user.owner if isinstance(user, TokenPrincipal) else user
    if owner.is_authenticated and not owner.is_superuser:
        rules.allowances_of(owner)  # the one query, now: rows are judged in the event loop
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


# Subjects of a cluster; of a topic there are rights (of who searches its messages), and no rows.
OF_CLUSTER = frozenset({"brokers", "collector", "counts", "group", "groups", "reports", "topic", "topics"})


def _view_of_cluster(user: Any, cluster: str, what: str = "", name: str = "") -> View | None:
    if what not in OF_CLUSTER:
        return None
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


_live: Any = LiveSocket.as_asgi(viewer_of=SessionViewer.of_socket)
_messages: Any = MessageSocket.as_asgi(viewer_of=SessionViewer.of_socket)
_routes: Any = [path("ws/live", _live), path("ws/c/<str:cluster>/messages", _messages)]
websocket_application: Any = OwnOrigin(AuthMiddlewareStack(URLRouter(_routes)))
