from __future__ import annotations

from brokerd.ha.flow_monitor import FlowMonitor


def test_the_last_whole_second_counts() -> None:
    monitor = FlowMonitor()
    monitor.add(10, 5_000)
    monitor.add(20, 5_999)
    assert monitor.bytes_in_second(5_999) == 0
    assert monitor.bytes_in_second(6_000) == 30
    monitor.add(7, 6_500)
    assert monitor.bytes_in_second(7_999) == 7
    assert monitor.bytes_in_second(9_000) == 0
