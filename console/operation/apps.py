"""Register the app with Django."""

from django.apps import AppConfig


class OperationConfig(AppConfig):
    name = "console.operation"
    verbose_name = "Plans and jobs"
