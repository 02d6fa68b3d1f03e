"""The list of a cluster's clients: 10,000 of 2,000 groups, each with four queues.

    python -m tests.benchmark.clients [--clients 10000] [--groups 2000]

Prints JSON: whole pages as Django answers them over every order, first, middle and last page, a search typed letter
by letter, and every chip.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from types import SimpleNamespace
from typing import Any

from tests.benchmark.lists import addresses, spread, world

QUEUES_EACH = 4
CHIPS = (
    "state=idle",
    "state=silent",
    "mode=orderly",
    "mode=clustering",
    "language=GO",
    "mode=orderly&sort=lag",
)


def fill(clients: int, groups: int) -> None:
    """Make groups, their clients, and four queues that each client owns."""
    from console.lag.models import ClientRow, GroupRow
    from console.lag.rows.queue_row import QueueRow
    from tests.support import sample_queues

    modes = ("CONCURRENTLY", "ORDERLY", "POP")
    GroupRow.objects.bulk_create(
        GroupRow(
            cluster="big",
            group=f"orders-{at:05}",
            status="OK",
            model="CLUSTERING",
            consume_mode=modes[at % 3],
            read_at_ms=1,
        )
        for at in range(groups)
    )
    rows, queues = [], []
    for at in range(clients):
        group, client_id = f"orders-{at % groups:05}", f"10.{at >> 16}.{at >> 8 & 255}.{at & 255}@7"
        own = [at // groups * QUEUES_EACH + number for number in range(QUEUES_EACH)]
        places = [{"topic": f"t-{group}", "broker_name": f"broker-{one % 8}", "queue_id": one} for one in own]
        queues += [QueueRow(group=group, owner=client_id, lag=at, status="OK", **place) for place in places]
        rows.append(
            ClientRow(
                cluster="big",
                group=group,
                client_id=client_id,
                address=f"{client_id[:-2]}:5000",
                language="GO" if at % 5 else "JAVA",
                version="V5_3_3",
                queues=places if at % 50 else [],
                subscription={f"t-{group}": {"expression": "*"}},
                started_at_ms=at,
                read_at_ms=1,
            )
        )
    ClientRow.objects.bulk_create(rows, batch_size=500)
    sample_queues.save("big", *queues)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=2_000)
    options = parser.parse_args()
    with world(SimpleNamespace(namesrv="127.0.0.1:1")) as client:
        from console.group.clients.client_list import CLIENTS

        fill(options.clients, options.groups)
        gc.collect()
        gc.freeze()

        def get(address: str) -> None:
            answer = client.get(address)
            assert answer.status_code == 200, (address, answer.status_code)

        result: dict[str, Any] = {
            sort: spread(get, addresses("clients", [sort], -(-options.clients // 50))[:6] * 3)
            for sort in CLIENTS.sorts
        }
        result["typed"] = spread(get, addresses("clients", [], 1))
        result["chips"] = spread(get, [f"/c/big/clients?{chip}" for chip in CHIPS])
    json.dump(result, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
