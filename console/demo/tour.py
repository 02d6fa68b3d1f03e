"""The tour of the demo: five steps, each shown on its page until the person closes the tour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from console.access.rules import may_see_cluster
from console.cluster.models import Cluster
from console.demo.models import ClosedTour
from console.text import Text


@dataclass(frozen=True, slots=True)
class Stop:
    """A page of the tour: its URL name and subject, what it shows, and what to try there."""

    page: str
    subject: str
    title: Text
    text: Text

    def url(self, cluster: str) -> str:
        """Return the address of the page."""
        return reverse(self.page, args=[cluster, self.subject] if self.subject else [cluster])


STOPS = (
    Stop(
        "groups",
        "",
        Text("Find the group that needs attention"),
        Text(
            "Groups that need attention come first. analytics is too slow for ten minutes of every fourteen, "
            "shipping waits on one message, nightly-export is offline, billing and ledger keep up."
        ),
    ),
    Stop(
        "group",
        "shipping",
        Text("See why a queue is stalled"),
        Text(
            "One queue waits for a parcel without an address while the others continue. The queue table "
            "shows which queue and since when; open the message at its committed offset to see the cause."
        ),
    ),
    Stop(
        "group",
        "analytics",
        Text("Change offsets, and undo it"),
        Text(
            "Change offsets to Latest: the plan shows every queue before anything changes. Apply it, "
            "watch the brokers confirm it, then undo it from the same page."
        ),
    ),
    Stop(
        "dead-letter-group",
        "notifier",
        Text("Replay dead letters"),
        Text(
            "E-mails that failed three times, each with its exception. Make a replay plan for the failed "
            "group only, run it at a rate of your choice, pause and resume it."
        ),
    ),
    Stop(
        "reports",
        "",
        Text("Read the reports"),
        Text(
            "Run the hourly lag report: Spark computes it from the stored history. Each row opens the "
            "report of its group with error budget, heat maps, forecasts and episodes."
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Step:
    """A stop as the bar on its page shows it; numbers begin with 1."""

    stop: Stop
    number: int
    count: int
    previous_url: str
    next_url: str
    week_url: str


def is_open(user: Any, cluster: Cluster | None) -> bool:
    """Return whether the person sees the tour on this cluster: the demo's, and the tour not closed."""
    if not settings.DEMO or cluster is None or not cluster.is_embedded or not user.is_authenticated:
        return False
    return not ClosedTour.objects.filter(user=user).exists()


def step_of(request: HttpRequest, cluster: Cluster | None) -> Step | None:
    """Return the step whose page this is; None elsewhere, and where the tour is not open."""
    match = request.resolver_match
    if match is None or cluster is None:
        return None
    subjects = [str(value) for name, value in match.kwargs.items() if name != "cluster"]
    here = (match.url_name, "".join(subjects))
    index = next((index for index, stop in enumerate(STOPS) if (stop.page, stop.subject) == here), None)
    if index is None or not is_open(request.user, cluster):
        return None
    return Step(
        STOPS[index],
        number=index + 1,
        count=len(STOPS),
        previous_url=STOPS[index - 1].url(cluster.name) if index else "",
        next_url=STOPS[index + 1].url(cluster.name) if index + 1 < len(STOPS) else "",
        week_url=_week_url(request.user) if STOPS[index].page == "reports" else "",
    )


def _week_url(user: Any) -> str:
    """Return where the reports of the generated week are; empty without one that the person may see."""
    found = Cluster.objects.filter(generated_to_ms__isnull=False).first()
    return reverse("reports", args=[found.name]) if found and may_see_cluster(user, found.name) else ""


def close(user: Any) -> None:
    """Close the tour of a person for good."""
    ClosedTour.objects.get_or_create(user=user)
