"""Registers the app with Django."""

from django.apps import AppConfig


class TopicConfig(AppConfig):
    name = "console.topic"
    verbose_name = "Topics"
