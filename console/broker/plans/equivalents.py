"""The same wish without the pages: as a REST request and as a command line."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from console.operation.plan.params import ACCEPT_WITHOUT


def made_by(cluster: str, kind: str, subject: str, params: Mapping[str, Any]) -> dict[str, str]:
    """Path and body of the request (quoted for a shell), and `manage.py brokers …`."""
    body = {"kind": kind, "subject": subject, "params": dict(params)}
    return {
        "path": f"/api/v1/clusters/{cluster}/config-plans",
        "body": shlex.quote(json.dumps(body, ensure_ascii=False)),
        "command": command_line(cluster, kind, subject, params),
    }


def command_line(cluster: str, kind: str, subject: str, params: Mapping[str, Any]) -> str:
    """`manage.py brokers config KEY --set broker-a=value …` or `manage.py brokers drain broker-a …`."""
    if kind == "broker_drain":
        words = ["drain" if params["direction"] == "drain" else "give-back", subject]
    else:
        words = ["config", params["key"]]
        for name, value in params["values"].items():
            words += ["--set", f"{name}={value}"]
        words += [part for name in params.get(ACCEPT_WITHOUT, ()) for part in ("--accept-without", name)]
    return shlex.join(["manage.py", "brokers", *words, "--cluster", cluster])
