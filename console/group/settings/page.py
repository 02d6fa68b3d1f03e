"""The settings of a group by area: each key with its meaning, RocketMQ's default and what the brokers have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django import forms

from console.cluster.models import Cluster
from console.group.settings.config import AREAS, DEFAULTS, FIELDS, FIXED, MEANING
from console.operation.config.row import GROUP
from console.operation.config.table import ConfigTable, KeyArea, KeyRow, read_table
from console.text import Text

OF_KEY = {key: name for name, (key, _, _) in FIELDS.items()}


@dataclass(frozen=True, slots=True)
class Setting:
    """A field of the form; ``now``: its row in the table of the brokers, None where no broker was read."""

    field: forms.BoundField
    is_choice: bool
    default: object
    now: KeyRow | None = None

    @property
    def value(self) -> object:
        """Return what every broker has; None where they differ or none was read."""
        return None if self.now is None or self.now.differs else self.now.cells[0][0]


def settings_table(here: Cluster, group: str) -> ConfigTable:
    """Read what every broker has, by area."""
    return arranged(read_table(here, GROUP, group))


def arranged(table: ConfigTable) -> ConfigTable:
    """Return the table with its keys by area, with meaning and default; those of no area come last."""
    rows = {row.key: _explained(row) for row in table.rows}
    areas = []
    for title, names in AREAS:
        found = [rows.pop(key) for key in (FIELDS[name][0] for name in names) if key in rows]
        areas.append(KeyArea(title, tuple(sorted(found, key=lambda row: not row.differs))))
    areas.append(KeyArea(Text("Not changed here"), tuple(rows.values())))
    return replace(table, areas=tuple(area for area in areas if area.rows))


def _explained(row: KeyRow) -> KeyRow:
    meaning = MEANING[OF_KEY[row.key]] if row.key in OF_KEY else FIXED.get(row.key, Text())
    return replace(row, meaning=meaning, default=DEFAULTS.get(row.key))


def setting_areas(
    form: forms.Form, table: ConfigTable | None = None
) -> Sequence[tuple[Text, Sequence[Setting]]]:
    """Return the fields of a form by area, each with what the brokers have now."""
    rows = {} if table is None else {row.key: row for row in table.rows}
    areas = []
    for title, names in AREAS:
        settings = []
        for name in names:
            key, lowest, _ = FIELDS[name]
            field, now = form[name], rows.get(key)
            if now is not None:
                field.help_text = ""  # the table has it
            settings.append(Setting(field, lowest is None, DEFAULTS.get(key), now))
        areas.append((title, settings))
    return areas
