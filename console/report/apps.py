"""Register the app with Django."""

from django.apps import AppConfig


class ReportConfig(AppConfig):
    name = "console.report"
    verbose_name = "Reports"
