"""Preview changes of configuration: ``POST config-plans`` returns 201 with a diff per broker.

Nothing is changed. What a kind accepts makes its serializer; applying, undoing and watching are those of
every plan (``/plans/{id}/apply``, …).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.urls import path
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from api.change.operation import KEY_HEADER, MakesPlan, PlanSerializer
from api.rest.error_words import one_of
from console.operation.plan.kinds import AnyPlanKind
from console.operation.plan.params import NAME_LENGTH_MAX, Parameter
from console.operation.selectors import plan_kinds


def _field(parameter: Parameter) -> serializers.Field[Any, Any, Any, Any]:
    """Return the field of a parameter. A text that is not required may be empty, and keeps its spaces."""
    required, words = parameter.required, parameter.help_text or None
    if isinstance(parameter.choices, Mapping):
        return serializers.ChoiceField(
            list(parameter.choices.items()),
            required=required,
            help_text=words,
            error_messages=one_of(map(str, parameter.choices)),
        )
    if parameter.choices:
        return serializers.ChoiceField(
            parameter.choices, required=required, help_text=words, error_messages=one_of(parameter.choices)
        )
    if parameter.type is bool:
        return serializers.BooleanField(required=required, help_text=words)
    if parameter.type is int:
        return serializers.IntegerField(
            min_value=parameter.least, max_value=parameter.most, required=required, help_text=words
        )
    if parameter.type is tuple:
        name = serializers.CharField(max_length=NAME_LENGTH_MAX)
        return serializers.ListField(
            child=name, max_length=parameter.most, required=required, help_text=words
        )
    text = serializers.CharField(
        max_length=parameter.most,
        allow_blank=not required,
        trim_whitespace=required,
        required=required,
        help_text=None if parameter.type is dict else words,
    )
    if parameter.type is dict:
        return serializers.DictField(child=text, required=required, help_text=words)
    return text


def _serializer(name: str, words: str, /, **fields: Any) -> type[serializers.Serializer[Any]]:
    return type(f"{name}Serializer", (serializers.Serializer,), {**fields, "__doc__": words or None})


def _request(
    kind: AnyPlanKind, params: type[serializers.Serializer[Any]]
) -> type[serializers.Serializer[Any]]:
    """Return the serializer of the request body of one kind: {kind, subject, params}."""
    words = str(kind.place.name_words)
    subject = (kind.accepted and kind.accepted.subject) or f"{words[:1].lower()}{words[1:]}"
    name = "".join(word.capitalize() for word in kind.kind.split("_"))
    return _serializer(
        f"{name}PlanRequest",
        f"{kind.kind.replace('_', ' ')}.",
        kind=serializers.ChoiceField(choices=[kind.kind]),
        subject=serializers.CharField(max_length=NAME_LENGTH_MAX, help_text=subject),
        params=params(required=False),
    )


ACCEPTED = {kind: kind.accepted for kind in plan_kinds().values() if kind.accepted is not None}
# Several kinds accept the same.
PARAMS = {
    accepted.name: _serializer(
        accepted.name, accepted.words, **{one.name: _field(one) for one in accepted.parameters}
    )
    for accepted in ACCEPTED.values()
}
KINDS = {kind.kind: _request(kind, PARAMS[accepted.name]) for kind, accepted in ACCEPTED.items()}


class KindSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=list(KINDS), error_messages=one_of(KINDS))


class ConfigPlans(MakesPlan):
    """Preview a change of a topic, of a group's settings or of a broker. Changes nothing."""

    verbs: ClassVar[dict[str, str]] = {"POST": "CONFIGURE"}

    @extend_schema(
        operation_id="config_plans_create",
        tags=["changes"],
        parameters=[KEY_HEADER],
        request=PolymorphicProxySerializer(
            component_name="ConfigPlanRequest",
            serializers=dict(KINDS),
            resource_type_field_name="kind",
        ),
        responses={201: PlanSerializer},
    )
    def post(self, request: Request, cluster: str) -> Response:
        chosen = KindSerializer(data=request.data)
        chosen.is_valid(raise_exception=True)
        kind = chosen.validated_data["kind"]
        wanted = KINDS[kind](data=request.data)
        wanted.is_valid(raise_exception=True)
        given = wanted.initial_data.get("params", {})
        # With those that are unknown, which the kind refuses.
        params = {**given, **wanted.validated_data.get("params", {})}
        return self.make(request, cluster, kind, wanted.validated_data["subject"], params)


urlpatterns = [path("clusters/<str:cluster>/config-plans", ConfigPlans.as_view(), name="api-config-plans")]
