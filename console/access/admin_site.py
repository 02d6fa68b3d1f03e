"""Django's admin site for superusers: people are edited here, what the product manages is read-only.

Every change is audited: a model is either read-only, or each change of it is an event with before and after.
Models of other packages are left out: a periodic task of Celery's beat could run any task of the console with
any argument.
"""

from typing import Any

from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.models import AnonymousUser, Group, User
from django.db.models import Model
from django.db.models.base import ModelBase
from django.http import HttpRequest
from django.shortcuts import redirect
from django.utils.translation import gettext

from console.access.selectors import sha256
from console.access.services import record_audit
from console.access.session.visitor import remote_addr
from console.text import JsonObject

SHOWN_APPS = frozenset({"access", "auth", "cluster"})
NOT_AUDITED = frozenset({"id", "last_login", "date_joined", "user_permissions", "permissions"})


class TidemarkAdminSite(AdminSite):
    site_header = site_title = "Tidemark"

    def register(self, model_or_iterable: Any, admin_class: Any = None, **options: Any) -> None:
        models: list[Any] = (
            [model_or_iterable] if isinstance(model_or_iterable, ModelBase) else list(model_or_iterable)
        )
        ours = [model for model in models if model._meta.app_label in SHOWN_APPS]
        super().register(ours, admin_class, **options)

    def has_permission(self, request: HttpRequest) -> bool:
        person: User | AnonymousUser = request.user
        return person.is_active and person.is_superuser

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """Name Django's groups as the console does: a group is RocketMQ's, and its catalogue says so."""
        apps = super().get_app_list(request, app_label)
        for model in (model for app in apps for model in app["models"]):
            if model["model"] is Group:
                model["name"] = gettext("Teams")
        return apps

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Redirect to the console's password page, which limits guesses and is audited."""
        return redirect("set-password")


class ReadOnlyAdmin(ModelAdmin):  # type: ignore[type-arg]
    """A model shown read-only: pages, REST and commands change it and keep the rules and the audit."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class AuditedAdmin(ModelAdmin):  # type: ignore[type-arg]
    """A model edited here, each change recorded as an audit event.

    ``verbs``: the audit verbs for adding, changing and removing.
    """

    verbs: tuple[str, str, str]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change:
            request.tidemark_before = snapshot(self.model.objects.get(pk=obj.pk))  # type: ignore[attr-defined]
        super().save_model(request, obj, form, change)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        self._audit(request, self.verbs[0], obj, None, snapshot(obj))
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        before = getattr(request, "tidemark_before", None)
        after = snapshot(obj)
        if before != after or before is None:
            self._audit(request, self.verbs[1], obj, before, after)
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        for thing in queryset:
            self._audit(request, self.verbs[2], thing, snapshot(thing), None)
        return super().log_deletions(request, queryset)

    def _audit(self, request: HttpRequest, verb: str, thing: Any, before: Any, after: Any) -> None:
        record_audit(
            actor=request.user,
            verb=verb,
            subject=str(thing),
            before=before,
            after=after,
            remote_addr=remote_addr(request),
        )


def snapshot(thing: Model) -> JsonObject:
    """Return the fields of a row for the audit; of a password, only enough to see that it changed."""
    found: JsonObject = {}
    for field in thing._meta.fields:
        if field.name not in NOT_AUDITED:
            value = getattr(thing, field.name)
            found[field.name] = value if isinstance(value, bool | int | str | list | None) else str(value)
    if "password" in found:
        # Not the password hash itself: a few characters of its digest show that it changed.
        found["password"] = sha256(str(found["password"]))[:8]
    for many in thing._meta.many_to_many:
        if many.name not in NOT_AUDITED:
            found[many.name] = sorted(str(one) for one in getattr(thing, many.name).all())
    return found
