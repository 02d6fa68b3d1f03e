"""The Django app of brokers and name servers."""

from django.apps import AppConfig


class BrokerApp(AppConfig):
    name = "console.broker"
    label = "broker"
