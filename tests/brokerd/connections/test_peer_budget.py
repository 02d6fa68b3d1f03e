from __future__ import annotations

from brokerd.connections.peer_budget import PeerBudget


def test_the_largest_holder_of_the_largest_address_gives_up_first() -> None:
    budget: PeerBudget[str] = PeerBudget(total_max=100, address_max=60)
    budget.hold("a", "10.0.0.1", 30)
    budget.hold("b", "10.0.0.2", 20)
    budget.hold("c", "10.0.0.2", 40)
    assert (budget.total_bytes, budget.is_over("10.0.0.2"), budget.one_too_many()) == (90, False, None)
    budget.hold("b", "10.0.0.2", 21)
    assert (budget.is_over("10.0.0.2"), budget.is_over("10.0.0.1")) == (True, False)
    assert budget.one_too_many() == "c"


def test_of_equal_holders_the_oldest_gives_up() -> None:
    budget: PeerBudget[str] = PeerBudget(total_max=10, address_max=100)
    budget.hold("old", "10.0.0.1", 6)
    budget.hold("new", "10.0.0.1", 6)
    assert budget.one_too_many() == "old"
    budget.hold("old", "10.0.0.1", 0)
    assert (budget.one_too_many(), budget.total_bytes) == (None, 6)
