"""Register the access app in Django's admin: edit people, teams and grants; show roles, tokens, audit.

`manage.py roles` changes roles. The token page, REST and `manage.py token` create and revoke tokens.
"""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import Group, User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from console.access.admin_site import AuditedAdmin, ReadOnlyAdmin
from console.access.models import ApiToken, AuditEvent, Grant, MaskRule, Role


@login_not_required
def admin_sign_in(request: HttpRequest) -> HttpResponse:
    """Redirect to the console's sign-in: the admin's own form would not limit password guesses."""
    if request.user.is_authenticated:
        raise PermissionDenied("The admin pages are for people with every right.")
    return redirect_to_login(request.GET.get("next", "/admin/"))


class PersonAdmin(AuditedAdmin, UserAdmin):  # type: ignore[type-arg]
    """People. Grants hold their rights; Django's own permissions have no effect here."""

    verbs = ("add person", "change person", "remove person")
    list_display = ("username", "email", "is_active", "is_superuser")
    list_filter = ("is_active", "is_superuser", "groups")
    filter_horizontal = ("groups",)
    fieldsets = (
        (None, {"fields": ("username", "password", "email", "first_name", "last_name")}),
        ("Permissions", {"fields": ("is_active", "is_superuser", "groups")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    readonly_fields = ("last_login", "date_joined")

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> Any:
        """Redirect a person's own password change to the password page: it requires the present one."""
        if id == str(request.user.pk):
            return redirect("set-password")
        return super().user_change_password(request, id, form_url)


class TeamAdmin(AuditedAdmin, GroupAdmin):
    verbs = ("add team", "change team", "remove team")
    fields = ("name",)


admin.site.unregister([User, Group])
admin.site.register(User, PersonAdmin)
admin.site.register(Group, TeamAdmin)


@admin.register(Grant)
class GrantAdmin(AuditedAdmin):
    verbs = ("add grant", "change grant", "remove grant")
    list_display = ("user", "team", "role", "cluster_pattern", "name_pattern")
    list_filter = ("role",)
    search_fields = ("user__username", "team__name")


@admin.register(MaskRule)
class MaskRuleAdmin(AuditedAdmin):
    verbs = ("add mask", "change mask", "remove mask")
    list_display = ("topic_pattern", "where", "name", "cluster_pattern")


@admin.register(Role)
class RoleAdmin(ReadOnlyAdmin):
    list_display = ("name", "verbs")


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    list_display = ("prefix", "name", "owner", "scopes", "expires_at", "last_used_at", "revoked_at")
    search_fields = ("prefix", "name", "owner__username")
    exclude = ("key_sha256",)


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ("at", "actor", "verb", "cluster", "subject", "plan_id", "remote_addr")
    list_filter = ("verb", "cluster")
    search_fields = ("actor", "subject", "plan_id")
    date_hierarchy = "at"
