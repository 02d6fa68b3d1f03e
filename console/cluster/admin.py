"""Clusters in Django's admin. Adding one is left to the page and the command, which ask the address first."""

from django.contrib import admin
from django.http import HttpRequest

from console.cluster.models import Cluster


@admin.register(Cluster)
class ClusterAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "namesrv_addrs", "is_embedded", "is_production", "poll_interval_s")
    readonly_fields = ("name", "is_embedded", "created_at")
    search_fields = ("name", "namesrv_addrs")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False
