"""What the first visit to a page transfers: HTML, styles, scripts, icon; there are no fonts and no foreign files.

    python -m tests.benchmark.page_weight [--groups 10000]

Prints JSON. Bytes are those of the response bodies as the whole middleware stack answers a client that takes gzip
(`Accept-Encoding: gzip`), with an empty cache: the page itself and everything its HTML names. `naive`: the same for
a client that takes none, which is what a server without compression sends to all.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import Any

from tests.benchmark.lists import world
from tests.support.simulated_cluster import SimulatedCluster

LIMIT_BYTES = 150_000
PAGES = ("", "groups", "topics", "messages", "dead-letters", "brokers", "operations", "reports")
NAMED = re.compile(r'<(?:link|script)[^>]+(?:href|src)="(/static/[^"]+)"')


def body_bytes(client: Any, address: str, encoding: str) -> tuple[int, str]:
    """How many bytes the body has on the wire, and how it is encoded."""
    answer = client.get(address, headers={"Accept-Encoding": encoding})
    assert answer.status_code == 200, (address, answer.status_code)
    return len(answer.getvalue()), answer.headers.get("Content-Encoding", "identity")


def weigh(client: Any, page: str) -> dict[str, Any]:
    address = f"/c/big/{page}"
    named = list(dict.fromkeys(NAMED.findall(client.get(address).content.decode())))
    sizes = {one: body_bytes(client, one, "gzip")[0] for one in named}
    html, encoding = body_bytes(client, address, "gzip")
    total = html + sum(sizes.values())
    return {
        "html": html,
        "html_encoding": encoding,
        "css": sum(size for name, size in sizes.items() if name.endswith(".css")),
        "js": sum(size for name, size in sizes.items() if name.endswith(".js")),
        "requests": 1 + len(named),
        "total": total,
        "below_150_kB": total < LIMIT_BYTES,
        "naive": sum(body_bytes(client, one, "identity")[0] for one in [address, *named]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--groups", type=int, default=10_000)
    options = parser.parse_args()
    sizes = {"brokers": 8, "topics": options.groups, "groups": options.groups}
    with SimulatedCluster(**sizes) as simulated, world(simulated) as client:
        from console.lag import services

        services.collect("big", now_ms=services.system_now_ms())
        json.dump({page or "overview": weigh(client, page) for page in PAGES}, sys.stdout, indent=1)
        sys.stdout.write("\n")


if __name__ == "__main__":
    main()
