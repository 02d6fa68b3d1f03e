"""Clusters in Django's admin, read-only: pages, REST and `manage.py clusters` change them."""

from django.contrib import admin

from console.access.admin_site import ReadOnlyAdmin
from console.cluster.models import Cluster


@admin.register(Cluster)
class ClusterAdmin(ReadOnlyAdmin):
    list_display = ("name", "namesrv_addrs", "is_embedded", "is_production", "poll_interval_s")
    exclude = ("tls_key_sealed", "secret_key_sealed", "security_token_sealed")
    search_fields = ("name", "namesrv_addrs")
