"""End sessions idle for `SESSION_IDLE_MINUTES`: an unlocked browser must not stay signed in for days.

Only requests that a person causes count as use. Requests that an open page makes by itself carry a header and
do not count.
"""

import time
from collections.abc import Callable

from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect

from console.web.problem import page_before

# Session key; wall clock, because sessions outlive processes.
USED_AT = "used_at_s"
# static/js sends it with requests that no person caused.
BY_TIMER = "HTTP_X_TIDEMARK_TIMER"
# Not every request should write the session.
NOTED_EVERY_S = 60


def start_session(sender: object, request: HttpRequest, **_: object) -> None:
    """Record a sign-in as the first use of its session. Signal handler of `user_logged_in`."""
    request.session[USED_AT] = int(time.time())


def is_idle(session: SessionBase, now_s: float) -> bool:
    """Whether a session has been idle too long; one without a recorded use counts from now on."""
    used_at_s = session.get(USED_AT)
    return (
        bool(settings.SESSION_IDLE_S)
        and used_at_s is not None
        and now_s - used_at_s > settings.SESSION_IDLE_S
    )


class SignInMiddleware(LoginRequiredMiddleware):
    """Lead strangers to the sign-in page, and from there to the page they wanted.

    After a form of an ended session that is the page of the form, whose address may be another one.
    """

    def handle_no_permission(
        self, request: HttpRequest, view_func: Callable[..., HttpResponseBase]
    ) -> HttpResponseRedirect:
        """Redirect to the sign-in page."""
        if request.method in ("GET", "HEAD"):
            return super().handle_no_permission(request, view_func)
        is_own = request.headers.get("Referer") == request.build_absolute_uri()
        page = request.get_full_path() if is_own else page_before(request) or "/"
        return redirect_to_login(page, self.get_login_url(view_func))


class IdleSessionMiddleware:
    """Sign out idle sessions before a page is rendered, and record when a session is used."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if settings.SESSION_COOKIE_NAME in request.COOKIES and request.user.is_authenticated:
            now_s = time.time()
            if is_idle(request.session, now_s):
                logout(request)
            elif self._is_to_note(request, now_s):
                request.session[USED_AT] = int(now_s)
        return self.get_response(request)

    @staticmethod
    def _is_to_note(request: HttpRequest, now_s: float) -> bool:
        used_at_s = request.session.get(USED_AT)
        # A clock that was set back must not keep a session alive until it has caught up.
        is_old = used_at_s is None or not 0 <= now_s - used_at_s < NOTED_EVERY_S
        return is_old and (used_at_s is None or BY_TIMER not in request.META)
