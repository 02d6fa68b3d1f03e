"""An applied plan with its job and a report's run, named `…-sample`, beside the rows of `sample_rows`."""

from __future__ import annotations

import time

from django.utils import timezone

from console.operation.models import Job, Plan
from tests.console.report import sample_rows as report_rows

HOUR_MS = 3_600_000


def write_sample_change() -> Plan:
    """Write `op-sample`, `job-sample` and `report-sample`, all about the group `billing` of `local`."""
    now = timezone.now()
    about = {"kind": "offset_change", "cluster": "local", "subject": "billing", "created_by": "somebody"}
    params = {"target": "latest"}
    plan = Plan.objects.create(
        id="op-sample", state="APPLIED", params=params, created_at=now, expires_at=now, **about
    )
    Job.objects.create(id="job-sample", plan=plan, created_at=now, **about)
    this_hour_ms = int(time.time() * 1000) // HOUR_MS * HOUR_MS
    report_rows.row(report_rows.run("report-sample"), window_start_ms=this_hour_ms)
    return plan
