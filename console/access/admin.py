"""The access app in Django's admin. Keys are never shown; the audit can be read, not written."""

from django.contrib import admin
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from console.access.models import ApiToken, AuditEvent, Grant, Role


@login_not_required
def admin_sign_in(request: HttpRequest) -> HttpResponse:
    """Instead of the admin's own sign-in form, which would let somebody guess passwords without a limit."""
    if request.user.is_authenticated:
        raise PermissionDenied("The admin pages are for staff.")
    return redirect_to_login(request.GET.get("next", "/admin/"))


@admin.register(Role)
class RoleAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "verbs")


@admin.register(Grant)
class GrantAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("user", "team", "role", "cluster_pattern", "name_pattern")
    list_filter = ("role",)
    search_fields = ("user__username", "team__name")


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Tokens are made by `manage.py token` or the page, which show the key once; here they are seen and
    ended.
    """

    list_display = ("prefix", "name", "owner", "scopes", "expires_at", "last_used_at", "revoked_at")
    search_fields = ("prefix", "name", "owner__username")
    fields = (
        "owner",
        "name",
        "prefix",
        "scopes",
        "cluster_pattern",
        "expires_at",
        "last_used_at",
        "revoked_at",
    )
    readonly_fields = ("owner", "prefix", "last_used_at")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False


@admin.register(AuditEvent)
class AuditEventAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("at", "actor", "verb", "cluster", "subject", "plan_id", "remote_addr")
    list_filter = ("verb", "cluster")
    search_fields = ("actor", "subject", "plan_id")
    date_hierarchy = "at"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: AuditEvent | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: AuditEvent | None = None) -> bool:
        return False
