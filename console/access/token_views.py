"""Page of API tokens: list, create and revoke them."""

from __future__ import annotations

import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from console.access import rules, selectors, services
from console.access.forms import TokenForm
from console.access.models import Verb
from console.access.session.visitor import remote_addr
from console.text import Text


def _sees_all(request: HttpRequest) -> bool:
    return rules.may(request.user, Verb.ADMIN, rules.WILDCARD)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """List one's own tokens, or all for administrators; show a new token's key once, in this response."""
    form = TokenForm(request.POST or None)
    key, made = "", None
    if request.method == "POST" and form.is_valid():
        wanted = form.cleaned_data
        days = wanted["days"]
        made, key = services.create_token(
            owner=request.user,
            name=wanted["name"],
            scopes=wanted["scopes"],
            cluster_pattern=wanted["cluster_pattern"],
            expires_at=None if days is None else timezone.now() + datetime.timedelta(days=days),
            actor=request.user,
            remote_addr=remote_addr(request),
        )
        form = TokenForm()
    now = timezone.now()
    context = {
        "tokens": [
            (token, _state(token, now))
            for token in selectors.tokens_of(None if _sees_all(request) else request.user)
        ],
        "sees_all": _sees_all(request),
        "form": form,
        "key": key,
        "made": made,
        "verbs": Verb.choices,
        "now_ms": int(now.timestamp() * 1000),
    }
    return render(request, "access/tokens.html", context, status=422 if form.errors else 200)


def _state(token: Any, now: datetime.datetime) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at is not None and token.expires_at <= now else "valid"


@require_POST
def revoke(request: HttpRequest, prefix: str) -> HttpResponse:
    """Revoke one's own token or, as an administrator, any token."""
    mine = {token.prefix for token in selectors.tokens_of(request.user)}
    stopped = 0
    if prefix in mine or _sees_all(request):
        stopped = services.revoke_token(prefix=prefix, actor=request.user, remote_addr=remote_addr(request))
    if stopped:
        done = Text(
            "Token %(prefix)s is revoked. Requests with it are refused from now on.", prefix=f"{prefix}…"
        )
        messages.success(request, done.local())
    else:
        unknown = Text(
            "No valid token %(prefix)s that you may revoke: it does not exist, is revoked already, or "
            "belongs to another user.",
            prefix=f"{prefix}…",
        )
        messages.error(request, unknown.local())
    return redirect("tokens")
