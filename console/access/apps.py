"""Registers the app with Django."""

from django.apps import AppConfig


class AccessConfig(AppConfig):
    name = "console.access"
    verbose_name = "People, roles and tokens"
