"""The demo on pages: the step of the tour that a page is, and the card of the overview."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django import template
from django.conf import settings

from console.access import rules
from console.access.models import Verb
from console.demo import second_broker, tour
from console.process.programs import SECOND_BROKER_NAME, week_note

if TYPE_CHECKING:
    from console.cluster.models import Cluster

register = template.Library()


@dataclass(frozen=True, slots=True)
class DemoCard:
    """What the overview of the demo's cluster offers."""

    # Address and title of each stop; none when the person has closed the tour.
    stops: list[tuple[str, object]]
    broker_name: str
    is_broker_off: bool
    may_switch: bool


@dataclass(frozen=True, slots=True)
class GeneratedData:
    """Text of the banner above generated data. `is_being_made`: not all of it is there yet."""

    is_being_made: bool
    may_delete: bool


@register.simple_tag(takes_context=True)
def generated_data(context: Mapping[str, object]) -> GeneratedData | None:
    """Return what to say above pages of generated data, None on other clusters."""
    cluster: Cluster | None = context.get("cluster")  # type: ignore[assignment]
    if not cluster or not cluster.is_generated:
        return None
    user = context["request"].user  # type: ignore[attr-defined]
    return GeneratedData(
        is_being_made=not week_note(settings.DATA_DIR).exists(),
        may_delete=rules.may(user, Verb.ADMIN, cluster.name, rules.WILDCARD),
    )


@register.simple_tag(takes_context=True)
def tour_step(context: Mapping[str, object]) -> tour.Step | None:
    """Return the step of the tour that this page is, None on other pages."""
    return tour.step_of(context["request"], context.get("cluster"))  # type: ignore[arg-type]


@register.simple_tag(takes_context=True)
def demo_card(context: Mapping[str, object]) -> DemoCard | None:
    """Return the demo's card, None on other clusters and where nothing in it is for this person."""
    cluster: Cluster = context["cluster"]  # type: ignore[assignment]
    if not second_broker.exists(cluster):
        return None
    user = context["request"].user  # type: ignore[attr-defined]
    is_open = tour.is_open(user, cluster)
    may_switch = rules.may(user, Verb.CONFIGURE, cluster.name, rules.WILDCARD)
    if not is_open and not may_switch:
        return None
    return DemoCard(
        stops=[(stop.url(cluster.name), stop.title) for stop in tour.STOPS] if is_open else [],
        broker_name=SECOND_BROKER_NAME,
        is_broker_off=second_broker.is_off(),
        may_switch=may_switch,
    )
