"""Install `console.text.storable` on every database connection."""

from django.apps import AppConfig
from django.db.backends.signals import connection_created

from console.text import storable


class ConsoleConfig(AppConfig):
    name = "console"

    def ready(self) -> None:
        connection_created.connect(storable.install)
