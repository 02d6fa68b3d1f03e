"""The same cluster as the collector's tests."""

from tests.console.lag.conftest import collected, local_history, running, transactional_metrics, two_brokers

__all__ = ["collected", "local_history", "running", "transactional_metrics", "two_brokers"]
