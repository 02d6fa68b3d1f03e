"""Registers the app with Django."""

from django.apps import AppConfig


class DeadletterConfig(AppConfig):
    name = "console.deadletter"
    verbose_name = "Dead letters"
