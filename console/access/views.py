"""Pages of sign-in, the one-time link, one's own password, sign-out and the audit trail."""

from operator import itemgetter

from django.contrib import messages
from django.contrib.auth import login, logout, update_session_auth_hash
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.access import rules, selectors, services
from console.access.activity_list import ACTIVITY, ANY, FILE_EVENTS_MAX, activity_file, sentence_of
from console.access.errors import LinkInvalid, TooManyAttempts, WrongCredentials
from console.access.forms import ActivityForm, ChangePasswordForm, ColumnsForm, NewPasswordForm, SignInForm
from console.access.models import AuditEvent
from console.access.session.visitor import remote_addr
from console.lists.page import cut
from console.lists.query import ListQuery
from console.lists.spec import LISTS
from console.text import Text, text_of
from console.web.page_context import PageContext

BACKEND = "django.contrib.auth.backends.ModelBackend"


def _next(request: HttpRequest) -> str:
    wanted = request.POST.get("next") or request.GET.get("next") or "/"
    is_ours = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if is_ours else "/"


@login_not_required
@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Sign in with name and password; a signed-in person is redirected at once."""
    if request.user.is_authenticated:
        return redirect(_next(request))
    form = SignInForm(request.POST or None)
    context = {"form": form, "next": _next(request)}
    if request.method == "POST" and form.is_valid():
        try:
            person = services.sign_in(request, **form.cleaned_data, remote_addr=remote_addr(request))
        except (WrongCredentials, TooManyAttempts) as refusal:
            form.add_error("password", str(refusal))
            return _refused(request, "access/sign_in.html", context, refusal)
        login(request, person, backend=BACKEND)
        return redirect(_next(request))
    return render(request, "access/sign_in.html", context)


@login_not_required
@never_cache
@sensitive_post_parameters("password", "again")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_link(request: HttpRequest, key: str) -> HttpResponse:
    """Show the one-time link's page (GET does not use the link up) and sign in by its button (POST)."""
    try:
        person = selectors.open_link(key, timezone.now()).user
    except LinkInvalid as refusal:
        if request.user.is_authenticated:
            return redirect("/")
        return render(request, "access/link_invalid.html", {"reason": str(refusal)}, status=410)
    skip = "skip" in request.POST
    form = NewPasswordForm(person, request.POST if request.method == "POST" and not skip else None)
    if request.method == "POST" and (skip or form.is_valid()):
        password = None if skip else form.cleaned_data["password"]
        try:
            person = services.redeem_sign_in_link(key, password=password, remote_addr=remote_addr(request))
        except LinkInvalid as refusal:
            return render(request, "access/link_invalid.html", {"reason": str(refusal)}, status=410)
        login(request, person, backend=BACKEND)
        return redirect("/")
    return render(
        request,
        "access/sign_in_link.html",
        {"form": form, "person": person},
        status=422 if form.errors else 200,
    )


@sensitive_post_parameters("old", "password", "again")
@require_http_methods(["GET", "HEAD", "POST"])
def set_password(request: HttpRequest) -> HttpResponse:
    """Set one's own password; this session stays, all others of the person end."""
    assert isinstance(request.user, User)
    form = ChangePasswordForm(request.user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            services.change_password(
                person=request.user,
                old=form.cleaned_data.get("old", ""),
                new=form.cleaned_data["password"],
                remote_addr=remote_addr(request),
            )
        except (WrongCredentials, TooManyAttempts) as refusal:
            form.add_error("old", text_of(refusal))
            return _refused(request, "access/set_password.html", {"form": form}, refusal)
        update_session_auth_hash(request, request.user)
        done = Text("Your password is set. Your other sessions have been signed out.")
        messages.success(request, done.local())
        return redirect("/")
    return render(request, "access/set_password.html", {"form": form}, status=422 if form.errors else 200)


def _refused(
    request: HttpRequest, template: str, context: PageContext, refusal: WrongCredentials | TooManyAttempts
) -> HttpResponse:
    """Return the form with the reason: 429 with Retry-After while sign-in is closed, else 422."""
    if isinstance(refusal, TooManyAttempts):
        answer = render(request, template, context, status=429)
        answer["Retry-After"] = str(refusal.retry_after_s)
        return answer
    return render(request, template, context, status=422)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect("sign-in")


@require_safe
def activity(request: HttpRequest) -> HttpResponseBase:
    """Show who did what, from where, before and after; `?format=csv` returns a file."""
    form = ActivityForm(request.GET)
    form.is_valid()
    wanted = form.cleaned_data
    if not rules.may_see_activity(request.user, wanted.get("cluster", "")):
        raise PermissionDenied(
            Text(
                "The activity of all clusters needs permission to view every cluster (VIEW). Choose a "
                "cluster that you may view in full."
            )
        )
    events = selectors.audit_events_like(
        cluster=wanted.get("cluster", ""),
        subject=wanted.get("subject", ""),
        actor=wanted.get("actor", ""),
        plan_id=wanted.get("plan", ""),
        verb=wanted.get("verb", ""),
    )
    events = ACTIVITY.between(events, wanted.get("since"), wanted.get("until"))
    list_query = ListQuery.of(request, ACTIVITY)
    if "sort" in request.GET:
        events = events.order_by(*ACTIVITY.order_by(list_query.sort, list_query.descending))
    if list_query.is_whole:
        return activity_file(events)
    # Of all that may be seen, so that another choice is one step away.
    visible = selectors.audit_events(cluster=wanted.get("cluster", ""))
    verbs = [(verb, sentence_of(verb, ANY).local()) for verb in selectors.audit_choices(visible, "verb")]
    clusters = selectors.audit_choices(AuditEvent.objects.all(), "cluster")
    context = {
        "clusters": [name for name in clusters if rules.may_see_activity(request.user, name)],
        "people": selectors.audit_choices(visible, "actor"),
        "sees_all": rules.may_see_activity(request.user),
        "verbs": sorted(verbs, key=itemgetter(1)),
        "list": ACTIVITY,
        "file_events_max": FILE_EVENTS_MAX,
        "query": list_query,
        "columns": selectors.column_choice(request.user, ACTIVITY),
        "page": cut(events, page=list_query.page, per_page=list_query.per_page),
        "wanted": wanted,
        "form": form,
    }
    return render(request, "access/activity.html", context, status=422 if form.errors else 200)


@require_POST
def columns(request: HttpRequest, table: str) -> HttpResponse:
    """Store the columns this person chose for a list; empty lists remove the choice."""
    if table not in LISTS:
        raise Http404(
            Text("The list %(name)s does not exist, or its columns cannot be chosen.", name=table).local()
        )
    form = ColumnsForm(LISTS[table], request.POST)
    if not form.is_valid():
        return HttpResponse(form.errors.as_text(), status=422, content_type="text/plain; charset=utf-8")
    services.choose_columns(
        request.user, table, shown=form.cleaned_data["on"], hidden=form.cleaned_data["off"]
    )
    return HttpResponse(status=204)
