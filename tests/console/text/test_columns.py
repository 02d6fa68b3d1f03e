"""Columns that hold texts: what is written comes back, a sentence is refused, an old one is read."""

from __future__ import annotations

import datetime

import pytest
from django.apps import apps
from django.db import connection, models, transaction
from django.utils import translation

from console.operation.models import Job, JobEvent, Plan
from console.text import Text
from console.text.columns import TextColumn

NOW = datetime.datetime(2026, 3, 12, 8, tzinfo=datetime.UTC)
STAYS = Text("%(number)s queue(s) {stays|stay} unchanged: %(why)s", number=3, why=Text("nothing is stored"))
ENGLISH, CHINESE = "3 queues stay unchanged: nothing is stored", "3 个队列保持不变：没有存储"
NO_SENTENCES = {"operation.Plan": {"reason"}, "lag.Episode": {"cause"}}  # typed by a person; a code


def plan(**values: object) -> Plan:
    fixed = {
        "kind": "k",
        "cluster": "local",
        "subject": "s",
        "created_by": "a",
        "created_at": NOW,
        "expires_at": NOW,
    }
    return Plan.objects.create(**fixed, **values)


@pytest.mark.django_db
def test_a_text_comes_back_with_its_values() -> None:
    made = plan(summary=STAYS, warnings=[{"level": "warn", "title": STAYS, "text": Text()}])
    found = Plan.objects.get(pk=made.pk)
    assert found.summary == found.warnings[0]["title"] == ENGLISH
    with translation.override("zh-hans"):
        assert found.summary.local() == found.warnings[0]["title"].local() == CHINESE
    assert (found.blocked, type(found.blocked)) == ("", Text)


@pytest.mark.django_db
def test_a_plain_sentence_is_refused() -> None:
    refused = pytest.raises(TypeError, match=r"Plan\.summary takes a Text, not the sentence 'It is done\.'")
    with refused, transaction.atomic():
        plan(summary="It is done.")
    made = plan()
    with pytest.raises(TypeError, match="takes a Text"), transaction.atomic():
        Plan.objects.filter(pk=made.pk).update(blocked="It is done.")


@pytest.mark.django_db
def test_a_row_of_an_earlier_version_is_read_as_it_stands() -> None:
    made = plan()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE operation_plan SET summary = %s, blocked = %s", ["nothing is stored", "50 % of {it|them}"]
        )
    found = Plan.objects.get(pk=made.pk)
    assert (found.summary, found.blocked) == ("nothing is stored", "50 % of {it|them}")
    with translation.override("zh-hans"):
        assert (found.summary.local(), found.blocked.local()) == ("没有存储", "50 % of {it|them}")


@pytest.mark.django_db
def test_a_look_up_compares_with_what_is_kept() -> None:
    made = plan(summary=STAYS)
    assert Plan.objects.get(summary=STAYS, blocked="").pk == made.pk


def test_plans_and_jobs_keep_texts() -> None:
    columns = {(Plan, "summary"), (Plan, "blocked"), (Job, "error"), (JobEvent, "text")}
    assert {type(model._meta.get_field(name)) for model, name in columns} == {TextColumn}


SENTENCE_NAMES = ("reason", "error", "problem", "words", "summary", "blocked", "cause", "outcome")


def test_every_column_of_sentences_keeps_texts() -> None:
    found: dict[str, set[str]] = {}
    for model in apps.get_models():
        if not model.__module__.startswith("console."):
            continue
        for field in model._meta.get_fields():
            is_text = isinstance(field, models.TextField | models.CharField) and not isinstance(
                field, TextColumn
            )
            if is_text and field.name.endswith(SENTENCE_NAMES):
                found.setdefault(model._meta.label, set()).add(field.name)
    assert found == NO_SENTENCES
