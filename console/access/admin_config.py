"""Django's admin as an app, with our site in the place of its own: loaded before any model."""

from django.contrib.admin.apps import AdminConfig


class TidemarkAdminConfig(AdminConfig):
    default_site = "console.access.admin_site.TidemarkAdminSite"
