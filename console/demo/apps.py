"""Registers the app with Django."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "console.demo"
    verbose_name = "Demo"
