"""Turn a submitted form or button into a plan, or return why there is none."""

from __future__ import annotations

from collections.abc import Mapping

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from console.access.session.visitor import remote_addr
from console.brokers.mqadmin import MQBrokerError, MQClientError
from console.cluster.models import Cluster
from console.operation import services
from console.operation.errors import OperationError, PlanRejected
from console.operation.plan.params import RawParams
from console.text import text_of

TROUBLE = (MQBrokerError, MQClientError, OperationError)


def plan_or_reason(
    request: HttpRequest,
    here: Cluster,
    kind: str,
    subject: str,
    params: RawParams,
    form: forms.Form | None = None,
    form_fields: Mapping[str, str] | None = None,
) -> HttpResponse | str:
    """Return the redirect to the new plan, or why there is none; errors of a field go to the form.

    ``form_fields``: parameter of the plan → field of the form, where their names differ.
    """
    try:
        plan = services.create_plan(
            kind, here.name, subject, params, request.user, remote_addr=remote_addr(request)
        )
    except PlanRejected as refusal:
        field = (form_fields or {}).get(refusal.field, refusal.field)
        if form is None or field not in form.fields:
            return text_of(refusal).local()
        form.add_error(field, text_of(refusal).local())
        return ""
    except TROUBLE as trouble:
        return text_of(trouble).local()
    return redirect("plan", here.name, plan.id)


def apply_at_once(
    request: HttpRequest, here: Cluster, kind: str, subject: str, otherwise: HttpResponse
) -> HttpResponse:
    """Plan and apply at once, for changes that only give back what was taken.

    If refused, show the reason on ``otherwise``.
    """
    address = remote_addr(request)
    try:
        plan = services.create_plan(kind, here.name, subject, {}, request.user, remote_addr=address)
        job = services.apply_plan(plan.id, request.user, remote_addr=address)
    except TROUBLE as trouble:
        messages.error(request, text_of(trouble).local())
        return otherwise
    return redirect("job", here.name, job.id)
