"""Route models to databases: rows that every round rewrites stay out of the console's own database.

A collection round replaces thousands of rows every few seconds. In SQLite there is one writer per file, so
those rows live in a second file (alias `metrics`) and a slow form of the console never waits for them.
"""

from typing import Any

METRICS = "metrics"
METRICS_MODELS = frozenset(
    {
        "grouprow",
        "queuesheet",
        "topicrow",
        "topicqueuesheet",
        "brokerrow",
        "clientrow",
        "groupmembers",
        "round",
        "collectorlease",
        "groupwatch",
        "groupfiltersample",
        "promisecourse",
    }
)
# Models that migrations still create and drop there.
FORMER_MODELS = frozenset({"queuerow", "topicqueuerow"})
# Apps whose models are all of this kind.
METRICS_APPS = frozenset({"broker"})


class MetricsRouter:
    """Route the row models of `console.lag` and all of `METRICS_APPS` to `metrics`, the rest to `default`."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        """Return `metrics` for a row model, None (no opinion) for the others."""
        return METRICS if _is_metrics(model._meta.app_label, model._meta.model_name) else None

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        """Return the database for reading: there is one copy of each row."""
        return self.db_for_read(model, **hints)

    def allow_relation(self, first: Any, second: Any, **hints: Any) -> bool | None:
        """Refuse relations of row models, which cannot cross the two files; None for the others."""
        names = {(one._meta.app_label, one._meta.model_name) for one in (first, second)}
        return False if any(_is_metrics(*name) for name in names) else None

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: Any) -> bool:
        """Create a table in exactly one of the two databases."""
        return (db == METRICS) == _is_metrics(app_label, model_name)


def _is_metrics(app_label: str, model_name: str | None) -> bool:
    return app_label in METRICS_APPS or (app_label == "lag" and model_name in METRICS_MODELS | FORMER_MODELS)
