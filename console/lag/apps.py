"""Register the app with Django."""

from django.apps import AppConfig


class LagConfig(AppConfig):
    name = "console.lag"
    verbose_name = "Lag and collection"
