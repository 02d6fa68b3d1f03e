"""A configuration change without the pages: as a REST request and as a command line."""

from __future__ import annotations

import json
import shlex
from typing import Any

from console.operation.plan.kinds import RestCall
from console.operation.plan.params import ACCEPT_WITHOUT
from console.text.stored import as_json

# Options of the commands that take no value.
FLAGS = frozenset({"keep_offsets", "with_topics"})

# Lists: one option for each of their names.
REPEATED = {
    "brokers": "--broker",
    "topics": "--topic",
    ACCEPT_WITHOUT: "--accept-without",
}


def config_plans_call(cluster: str, kind: str, subject: str, params: Any) -> RestCall:
    """Return the REST request of a configuration change."""
    body = {"kind": kind, "subject": subject, "params": as_json(params)}
    return RestCall(f"/api/v1/clusters/{cluster}/config-plans", body)


def command_line(cluster: str, kind: str, subject: str, params: Any) -> str:
    """Return the command line: ``manage.py topics change NAME --perm 4 --broker broker-a --cluster local``."""
    what, _, step = kind.partition("_")
    words = ["manage.py", f"{what}s", step.removeprefix("force_"), subject]
    if step.startswith("force_"):
        words.append("--force")
    options = as_json(params)
    for name, value in options.items():
        if name in REPEATED:
            continue
        if name in FLAGS:
            words += [f"--{name.replace('_', '-')}"] if value else []
        else:
            words += [f"--{name.replace('_', '-')}", json.dumps(value).strip('"')]
    for name, option in REPEATED.items():
        words += [word for one in options.get(name, ()) for word in (option, one)]
    return shlex.join([*words, "--cluster", cluster])
