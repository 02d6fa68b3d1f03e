"""Configure Django's admin with the site of this project; loaded before any model."""

from django.contrib.admin.apps import AdminConfig


class TidemarkAdminConfig(AdminConfig):
    default_site = "console.access.admin_site.TidemarkAdminSite"
