"""Django's backend for PostgreSQL with our pool of connections. Django looks for this module and this class."""

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import psycopg
from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.postgresql import base

from console.postgresql.pool import Connection, Pool


class DatabaseWrapper(base.DatabaseWrapper):
    """A thread's connection; `OPTIONS["pool"]` gives the limits of the pool that it is taken from."""

    # Django's own, which its stubs leave out.
    _connection_pools: ClassVar[dict[str, Pool]] = {}
    if TYPE_CHECKING:
        _configure_connection: Callable[[Connection], bool]

    @property
    def pool(self) -> Pool | None:
        """Return the pool of this database, the same for all threads; None for one without limits."""
        limits = self.settings_dict["OPTIONS"].get("pool")
        if self.alias == NO_DB_ALIAS or not limits:
            return None
        pools = self._connection_pools
        return pools.get(self.alias) or pools.setdefault(self.alias, Pool(self._connected, **limits))

    def _connected(self) -> Connection:
        connection = psycopg.connect(**self.get_connection_params(), autocommit=True)
        self._configure_connection(connection)
        return connection
