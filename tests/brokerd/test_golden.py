"""Requests captured between Apache's own clients and brokers, replayed: code and header fields of our answers agree.

The golden broker had a history (topics, groups, messages, settings) that a replay in file order rebuilds only in part,
so codes whose answers depend on it, or that this broker does not serve yet, are not compared; none may stay unanswered.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from brokerd.remoting.command import decode_frame
from tests.brokerd.running import running

GOLDEN = Path(__file__).parent.parent / "golden" / "wire" / "5.3.3"
COMPARED = frozenset(
    (
        18,
        21,
        26,
        28,
        29,
        30,
        31,
        32,
        33,
        35,
        41,
        42,
        43,
        45,
        60,
        61,
        100,
        102,
        104,
        105,
        106,
        200,
        201,
        202,
        205,
        206,
        207,
        208,
    )
    + (
        215,
        216,
        217,
        224,
        225,
        300,
        303,
        304,
        305,
        306,
        308,
        311,
        312,
        313,
        315,
        316,
        317,
        319,
        320,
        322,
        327,
        328,
        329,
        343,
        345,
        352,
        361,
        402,
        9999,
    )
)
SUSPEND_FLAG = 2
PULLS = (11, 361)
# Wait for a client behind the broker.
RELAYED = (223, 307, 309)


def rows() -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """(requests to brokers and name servers, request file → answer)."""
    lines = [json.loads(line) for line in (GOLDEN / "manifest.jsonl").read_text("utf-8").splitlines()]
    answers = {row["request_file"]: row["header"] for row in lines if row["kind"] == "response"}
    requests = [
        row
        for row in lines
        if row["kind"] == "request"
        and row["direction"] in ("client to broker", "client to name server")
        and row["file"] in answers
        and row["code"] not in RELAYED
    ]
    return requests, answers


async def test_it_answers_golden_requests_as_apaches_broker_does(tmp_path: Path) -> None:
    requests, answers = rows()
    assert len(requests) > 100
    differences = {}
    compared = 0
    async with running(tmp_path) as broker:
        to_broker, to_namesrv = await broker.client(), await broker.namesrv_client()
        for row in requests:
            command = decode_frame((GOLDEN / row["file"]).read_bytes()[4:])
            if command.is_oneway:
                continue
            if command.code in PULLS and "sysFlag" in command.ext_fields:
                command.ext_fields["sysFlag"] = str(int(command.ext_fields["sysFlag"]) & ~SUSPEND_FLAG)
            client = to_broker if row["direction"] == "client to broker" else to_namesrv
            answer = await asyncio.wait_for(client.send(command), 60)
            if row["code"] in COMPARED:
                compared += 1
                expected = answers[row["file"]]
                ours = (answer.code, sorted(answer.ext_fields))
                theirs = (expected["code"], sorted(expected.get("extFields") or {}))
                if ours != theirs:
                    differences[row["file"]] = (ours, theirs)
    assert differences == {}
    assert compared > 60
