"""Registers the app with Django."""

from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in
from django.utils.translation import gettext_lazy


class AccessConfig(AppConfig):
    name = "console.access"
    verbose_name = gettext_lazy("People, roles and tokens")

    def ready(self) -> None:
        from console.access.session.idle_session import start_session  # models are loaded by now

        user_logged_in.connect(start_session, dispatch_uid="idle session")
