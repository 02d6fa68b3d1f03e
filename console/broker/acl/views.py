"""The page of a cluster's access control, and the forms that start a change of it; they change nothing themselves."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from console.access import rules
from console.access.models import Verb
from console.access.rules import WILDCARD
from console.broker.acl.facts import Generation
from console.broker.acl.forms import FORMS, AclForm, WhiteForm, initial_of
from console.broker.acl.page import NEEDED, AclTable, Holder, read_table
from console.broker.acl.params import NAME_LENGTH_MAX
from console.broker.acl.rights import ACCOUNT, USER
from console.cluster.admission import admit
from console.operation.plan_request import plan_or_reason
from console.text import Text

TITLES = {
    (ACCOUNT, True): Text("Create an account"),
    (ACCOUNT, False): Text("Change an account"),
    (USER, True): Text("Create a user"),
    (USER, False): Text("Change a user"),
}


@require_safe
def broker_acl(request: HttpRequest, cluster: str) -> HttpResponse:
    """Show accounts, users and white addresses as every broker reports them now; secrets are never shown."""
    here = admit(request, cluster, Verb.CONFIGURE)
    table = read_table(here)
    context = {
        "cluster": here,
        "table": table,
        "may_change": rules.may(request.user, Verb.ADMIN, here.name),
        "with_accounts": table.names(Generation.ACCOUNTS),
        "with_users": table.names(Generation.USERS),
        "now_ms": table.read_at_ms,
    }
    return render(request, "broker/acl.html", context)


@sensitive_post_parameters("secret")
@require_http_methods(["GET", "HEAD", "POST"])
def acl_change(request: HttpRequest, cluster: str, what: str) -> HttpResponse:
    """Create an account or user, or change the one that `?name=` names; POST makes the plan."""
    here = admit(request, cluster, Verb.ADMIN)
    if what not in FORMS:
        raise Http404(Text("A broker has no %(what)s.", what=what))
    table, name = read_table(here), request.GET.get("name", "")[:NAME_LENGTH_MAX]
    holder = _known(table, what, name) if name else None
    brokers = table.names(NEEDED[what])
    if holder is not None:
        brokers = [broker for variant in holder.variants for broker in variant.brokers]
    data = request.POST.copy() if request.method == "POST" else None
    if data is not None and name:
        data["name"] = name
    form = FORMS[what](brokers, data, initial={} if holder is None else dict(initial_of(holder)))
    made: HttpResponse | str = ""
    if data is not None and data.get("action") == "delete" and holder is not None:
        # On all brokers that have it, those that do not answer included.
        made = plan_or_reason(request, here, f"acl_{what}_delete", WILDCARD, {"name": name})
    elif data is not None and form.is_valid():
        kind = f"acl_{what}_{'create' if holder is None else 'change'}"
        made = plan_or_reason(request, here, kind, WILDCARD, form.params(), form)
    if isinstance(made, HttpResponse):
        return made
    context = {
        "cluster": here,
        "what": what,
        "is_account": what == ACCOUNT,
        "title": TITLES[what, holder is None],
        "holder": holder,
        "form": form,
        "problem": made,
        "brokers": brokers,
        "is_unknown": bool(table.problem or table.unknown),
        "chosen": data.getlist("brokers") if data is not None else brokers,
        "now_ms": table.read_at_ms,
    }
    is_wrong = bool(made) or (data is not None and bool(form.errors))
    return render(request, "broker/acl_change.html", context, status=422 if is_wrong else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def white_addresses(request: HttpRequest, cluster: str) -> HttpResponse:
    """Set the hosts that need no account (4.x); POST makes the plan."""
    here = admit(request, cluster, Verb.ADMIN)
    table = read_table(here)
    brokers = table.names(Generation.ACCOUNTS)
    known = [line.white_addresses for line in table.brokers if line.white_addresses]
    data = request.POST if request.method == "POST" else None
    form: AclForm = WhiteForm(brokers, data, initial={"addresses": known[0] if known else ""})
    made: HttpResponse | str = ""
    if data is not None and form.is_valid():
        made = plan_or_reason(request, here, "acl_white_addresses", WILDCARD, form.params(), form)
    if isinstance(made, HttpResponse):
        return made
    context = {
        "cluster": here,
        "form": form,
        "problem": made,
        "brokers": brokers,
        "is_unknown": bool(table.problem or table.unknown),
        "chosen": data.getlist("brokers") if data is not None else brokers,
        "now_ms": table.read_at_ms,
    }
    is_wrong = bool(made) or (data is not None and bool(form.errors))
    return render(request, "broker/acl_white.html", context, status=422 if is_wrong else 200)


def _known(table: AclTable, what: str, name: str) -> Holder:
    """Return an account or user that some broker reports. Raises Http404."""
    holder = next((each for each in table.of(what) if each.name == name), None)
    if holder is None:
        raise Http404(Text("No broker that answers has the account or user %(name)s.", name=name))
    return holder
