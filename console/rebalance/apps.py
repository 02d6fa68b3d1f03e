"""Registers the app with Django."""

from django.apps import AppConfig


class RebalanceConfig(AppConfig):
    name = "console.rebalance"
    verbose_name = "Rebalancing"
