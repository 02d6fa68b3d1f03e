"""Registers the app with Django."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class ClusterConfig(AppConfig):
    name = "console.cluster"
    verbose_name = gettext_lazy("Clusters")
