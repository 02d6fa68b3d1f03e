"""A small real plan kind for tests: it counts to ``params["steps"]``, may be blocked, drift, fail or need its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from console.operation.errors import PlanRejected, VerificationFailed
from console.operation.models import Job, Plan
from console.operation.plan.job_run import JobRun
from console.operation.plan.kinds import Draft, PlanKind, PlanWarning
from console.operation.plan.params import ACCEPT_WITHOUT, Given
from console.text import Text
from console.text.stored import Stored

RawJson = Mapping[str, Any]
RawDraft = Draft[RawJson, RawJson, RawJson]
FIELDS = ("steps", "messages", "blocked", "rate_per_s", "undoable")


class Steps(Stored, frozen=True, kw_only=True):
    step: int = 0


class Settled(Stored, frozen=True, kw_only=True, omit_defaults=False):
    settled_at: int


class Tally(PlanKind[RawJson, RawJson, RawJson]):
    """Works on the JSON of its columns; keeps what it did in ``done``.

    ``world`` is the outside state that a plan is computed from.
    """

    kind = "tally"
    verb = "RESET"
    title = Text("Tally")
    program = "tally"
    world: ClassVar[int] = 0
    done: ClassVar[list[int]] = []
    at_step: ClassVar[dict[int, Any]] = {}  # step → what happens just before it
    reached: ClassVar[bool] = True
    params_type = before_type = row_type = Mapping[str, Any]

    def read_params(self, given: Given) -> RawJson:
        named = {field: given.get(field) for field in FIELDS}
        return {field: value for field, value in named.items() if value is not None}

    def leaving_out(self, params: RawJson, brokers: Sequence[str]) -> RawJson:
        return {**params, ACCEPT_WITHOUT: list(brokers)}

    def compute(self, cluster: str, subject: str, params: Mapping[str, Any], now_ms: int) -> RawDraft:
        steps = params.get("steps", 3)
        if not isinstance(steps, int):
            raise PlanRejected(Text("steps is a number"), field="steps")
        return Draft(
            summary=Text("Count to %(steps)s.", steps=steps),
            diff=[{"before": Tally.world, "after": Tally.world + steps}],
            before={"world": Tally.world},
            messages=int(params.get("messages", 1)),
            warnings=[PlanWarning("info", Text("A test"))],
            blocked=Text(params.get("blocked", "")),
        )

    def drift(self, plan: Plan, now_ms: int) -> list[Text]:
        was = plan.before["world"]
        return (
            []
            if Tally.world == was
            else [Text("the world moved from %(was)s to %(world)s", was=was, world=Tally.world)]
        )

    def apply(self, run: JobRun) -> None:
        for step in range(run.progress_as(Steps).step, run.plan.params.get("steps", 3)):
            if step in Tally.at_step:
                Tally.at_step.pop(step)(run)
            run._looked = run._saved = 0.0  # as if a second had passed
            run.beat()
            Tally.done.append(step)
            run.put_progress(Steps(step=step + 1))
            run.save()

    def verify(self, run: JobRun) -> None:
        if not Tally.reached:
            raise VerificationFailed(Text("the world stands still"))
        Tally.world += len(Tally.done)

    def settle(self, run: JobRun) -> None:
        run.put_result(Settled(settled_at=run.progress_as(Steps).step))

    def undo_params(self, plan: Plan, job: Job) -> Mapping[str, Any] | None:
        return {"steps": 1} if plan.params.get("undoable", True) else None


KINDS = {"tally": Tally()}
