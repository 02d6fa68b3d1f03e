"""Registers the app with Django."""

from django.apps import AppConfig


class GroupConfig(AppConfig):
    name = "console.group"
    verbose_name = "Consumer groups"
