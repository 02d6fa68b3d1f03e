"""A replay of dead letters against a real brokerd: unthrottled speed, how true a set rate is, and the floors.

    python -m tests.benchmark.replay [--letters 40000] [--seconds 4] [--profile FILE]

Prints JSON. ``send floor``: the same copies sent by ``MQAdmin.send_many``, which is what a replay without reading,
filter, ledger and rate would do; ``read floor``: the same letters pulled and decoded. ``msgs_per_s`` is over the whole
job (claim to verified), ``stored_per_s`` from the first to the last copy by the broker's clock: the rate is judged by
that one. ``busiest_s`` is the largest number of copies the broker stored within any one second.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import django

from tests.benchmark.send_raw import cpu_seconds
from tests.support.broker_process import BrokerProcess, CommandBroker

GROUP, TOPIC, DLQ, RETRY, FLOOR = "billing", "orders", "%DLQ%billing", "%RETRY%billing", "floor"
RATES = (500, 2_000, 5_000)
PIECE = 1_000
WARM = 2_000  # letters replayed before anything is measured
BODY = b'{"order":"4711","amount":"12.50","currency":"EUR","lines":[' + b'{"sku":"A-1","n":1},' * 10 + b"0]}"


class World:
    """A broker with dead letters, and the console on a database of its own."""

    def __init__(self, broker: BrokerProcess) -> None:
        from django.core.management import call_command

        from console.access import services as access_services
        from console.brokers.mqadmin import Connection, with_admin
        from console.cluster.models import Cluster

        call_command("migrate", verbosity=0)
        call_command("migrate", database="metrics", verbosity=0)
        Cluster.objects.create(name="test", namesrv_addrs=broker.namesrv)
        self.person = access_services.ensure_first_person()
        self.broker = broker
        self.admin = with_admin(Connection(broker.namesrv))

    def prepare(self, letters: int) -> None:
        from console.brokers.mqadmin import SubscriptionGroupConfig, TopicConfig

        for topic, queues in ((TOPIC, 4), (RETRY, 1), (DLQ, 1), (FLOOR, 1)):
            self.admin.create_topic(self.broker.address, TopicConfig(topic, queues, queues, 6))
        self.admin.create_subscription_group(self.broker.address, SubscriptionGroupConfig(group_name=GROUP))
        self.send(DLQ, range(letters))

    def send(self, topic: str, numbers: Sequence[int]) -> None:
        """As CONSUMER_SEND_MSG_BACK leaves dead letters, PIECE at a time in one pipelined call."""
        from console.brokers.mqadmin import Message

        for start in range(0, len(numbers), PIECE):
            batch = []
            for number in numbers[start : start + PIECE]:
                properties = {
                    "KEYS": f"k{number}",
                    "TAGS": "paid",
                    "UNIQ_KEY": f"7F000001{number:024d}",
                    "RETRY_TOPIC": TOPIC,
                    "ORIGIN_MESSAGE_ID": f"7F00000100002A9F{number:016d}",
                    "DELAY": "0",
                }
                batch.append((Message(topic, BODY, properties), 0))
            for result in self.admin.send_many(self.broker.address, batch):
                assert not isinstance(result, Exception), result

    def end(self, topic: str) -> int:
        table = self.admin.topic_stats(self.broker.address, topic).offset_table
        return sum(each.max_offset for each in table.values())

    def replay(
        self, letters: int, rate_per_s: int | None, first: int = 0, profile: str = ""
    ) -> dict[str, Any]:
        """One job over ``letters`` dead letters from ``first`` on, run in this process as a worker would."""
        from console.deadletter.models import ReplayLedger
        from console.operation import selectors, services
        from console.operation.job import runner

        before = self.end(RETRY)
        params: dict[str, Any] = {
            "target": "failed_group",
            "rate_per_s": rate_per_s,
            "skip_replayed": first > 0,
        }
        plan = services.create_plan("dead_letter_replay", "test", GROUP, params, None)
        plan.before["ranges"][0] |= {"from_offset": first, "to_offset": first + letters}
        plan.save()
        job = services.apply_plan(plan.id, None, plan.confirm_text)
        assert self.broker.process is not None
        broker_cpu, own_cpu, started = (
            cpu_seconds(self.broker.process.pid),
            time.process_time(),
            time.monotonic(),
        )
        profiler = cProfile.Profile() if profile else None
        if profiler:
            profiler.runcall(runner.run, job.id, "worker-1")
            profiler.dump_stats(profile)
        else:
            runner.run(job.id, "worker-1")
        took_s = time.monotonic() - started
        found = selectors.job(job.id)
        assert (found.state, found.result["sent"]) == ("SUCCEEDED", letters), (found.error, found.result)
        assert self.end(RETRY) - before == letters
        assert ReplayLedger.objects.filter(plan=plan, state="SENT").count() == letters
        cpu_s = cpu_seconds(self.broker.process.pid) - broker_cpu
        return {
            "msgs_per_s": round(letters / took_s),
            "took_s": round(took_s, 2),
            "console_cpu_us_per_msg": round((time.process_time() - own_cpu) * 1e6 / letters, 1),
            "broker_cpu_us_per_msg": round(cpu_s * 1e6 / letters, 1),
            "broker_cpu_share": round(cpu_s / took_s, 2),
            **self.stored(before, letters),
        }

    def stored(self, first: int, count: int) -> dict[str, Any]:
        """By the broker's clock: copies per second from the first to the last, and the most within one second."""
        times: list[int] = []
        offset = first
        while len(times) < count:
            result = self.admin.pull(self.broker.address, RETRY, 0, offset)
            times += [record.store_timestamp_ms for record in result.messages]
            offset = result.next_begin_offset
        most, low = 0, 0
        for high, at_ms in enumerate(times):
            while times[low] <= at_ms - 1_000:
                low += 1
            most = max(most, high - low + 1)
        return {"stored_per_s": round((count - 1) * 1_000 / max(1, times[-1] - times[0])), "busiest_s": most}

    def floors(self, letters: int) -> dict[str, Any]:
        from console.deadletter.dead_letters import places, read_window

        assert self.broker.process is not None
        broker_cpu, started = cpu_seconds(self.broker.process.pid), time.monotonic()
        self.send(FLOOR, range(letters))
        took_s = time.monotonic() - started
        cpu_s = cpu_seconds(self.broker.process.pid) - broker_cpu
        found = {
            "send floor": {
                "msgs_per_s": round(letters / took_s),
                "broker_cpu_us_per_msg": round(cpu_s * 1e6 / letters, 1),
            }
        }
        place = places(self.admin, DLQ).queues[0]
        started = time.monotonic()
        for low in range(0, letters, 1_024):
            read_window(self.admin, place, low, min(low + 1_024, letters))
        found["read floor"] = {"msgs_per_s": round(letters / (time.monotonic() - started))}
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--letters", type=int, default=40_000)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of each run with a rate; 0: none")
    parser.add_argument("--profile", default="", help="write cProfile's figures of the unthrottled run there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "TIDEMARK_DATA": folder,
            "SECRET_KEY": "only-for-a-benchmark",
            "REDIS_URL": "redis://127.0.0.1:1/0",
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "LOG_LEVEL": "ERROR",
        }
        django.setup()
        broker = CommandBroker(Path(folder) / "store", mappedFileSizeCommitLog=256 << 20).start()
        try:
            world = World(broker)
            world.prepare(max(WARM + options.letters, int(max(RATES) * options.seconds)))
            result: dict[str, Any] = {"letters": options.letters, "body_bytes": len(BODY)}
            result |= world.floors(options.letters)
            world.replay(WARM, None)
            result["unthrottled"] = world.replay(options.letters, None, WARM, options.profile)
            for rate in RATES if options.seconds else ():
                done = world.replay(int(rate * options.seconds), rate)
                done["achieved_of_asked"] = round(done["stored_per_s"] / rate, 3)
                result[f"{rate} per second"] = done
        finally:
            broker.stop()
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
