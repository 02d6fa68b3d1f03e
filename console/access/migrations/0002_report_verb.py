"""Running a report has a verb of its own: roles that could change offsets or configuration may go on running them."""

from typing import Any

from django.db import migrations

COULD = {"RESET", "CONFIGURE"}


def add(apps: Any, schema_editor: Any) -> None:
    for role in apps.get_model("access", "Role").objects.all():
        if COULD & set(role.verbs) and "REPORT" not in role.verbs:
            role.verbs = [*role.verbs, "REPORT"]
            role.save(update_fields=["verbs"])


def remove(apps: Any, schema_editor: Any) -> None:
    for role in apps.get_model("access", "Role").objects.all():
        if "REPORT" in role.verbs:
            role.verbs = [verb for verb in role.verbs if verb != "REPORT"]
            role.save(update_fields=["verbs"])


class Migration(migrations.Migration):
    dependencies = [("access", "0001_initial")]
    operations = [migrations.RunPython(add, remove)]
