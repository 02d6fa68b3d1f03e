"""Registers the app with Django."""

from django.apps import AppConfig


class ClusterConfig(AppConfig):
    name = "console.cluster"
    verbose_name = "Clusters"
