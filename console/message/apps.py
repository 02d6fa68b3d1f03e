"""Register the app with Django."""

from django.apps import AppConfig


class MessageConfig(AppConfig):
    name = "console.message"
    verbose_name = "Messages"
