from __future__ import annotations

from brokerd.clients.queue_lock import QueueLockManager
from brokerd.remoting.message.queue import MessageQueue

Q0, Q1 = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)


def test_it_gives_a_free_queue_to_the_first_that_asks() -> None:
    locks = QueueLockManager()
    assert locks.lock("g", [Q0, Q1], "one", 1_000) == [Q0, Q1]
    assert locks.lock("g", [Q0, Q1], "two", 2_000) == []
    assert locks.lock("other", [Q0], "two", 2_000) == [Q0]


def test_it_takes_a_lock_away_sixty_seconds_after_its_last_renewal() -> None:
    locks = QueueLockManager()
    locks.lock("g", [Q0], "one", 0)
    locks.lock("g", [Q0], "one", 30_000)
    assert locks.lock("g", [Q0], "two", 90_000) == []
    assert locks.lock("g", [Q0], "two", 90_001) == [Q0]


def test_it_lets_only_the_owner_unlock() -> None:
    locks = QueueLockManager()
    locks.lock("g", [Q0], "one", 0)
    locks.unlock("g", [Q0], "two")
    assert locks.lock("g", [Q0], "two", 1) == []
    locks.unlock("g", [Q0], "one")
    assert locks.lock("g", [Q0], "two", 2) == [Q0]


def test_it_knows_whether_a_group_consumes_orderly() -> None:
    locks = QueueLockManager()
    locks.lock("g", [Q0], "one", 0)
    assert locks.is_group_locked("g", 60_000)
    assert not locks.is_group_locked("g", 60_001)
    assert not locks.is_group_locked("nobody", 0)
    locks.drop_expired(60_001)
    assert not locks.is_group_locked("g", 0)
