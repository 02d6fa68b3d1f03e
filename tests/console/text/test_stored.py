"""Values in JSON columns: what is written is read back, and old rows stay readable."""

from __future__ import annotations

from console.operation.plan.params import Params
from console.text import Text
from console.text.stored import Stored, as_json, of_json, with_fields


class Row(Stored, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    note: Text = Text()


class Wanted(Params, frozen=True, kw_only=True, omit_defaults=True):
    rows: tuple[Row, ...] = ()
    depth: int | None = None


WANTED = Wanted(rows=(Row(name="a", note=Text("%(number)s left", number=3)),), accept_without=("broker-b",))


def test_a_value_is_written_as_plain_json_without_its_defaults() -> None:
    assert as_json(WANTED) == {
        "accept_without": ["broker-b"],
        "rows": [{"name": "a", "note": "3 left"}],
    }
    assert as_json(Wanted()) == {}
    assert as_json(Row(name="a")) == {"name": "a", "note": ""}


def test_a_value_is_read_back_with_its_texts() -> None:
    found = of_json(Wanted, as_json(WANTED))
    assert found == WANTED
    assert found.rows[0].note.values == {"number": 3}


def test_rows_of_earlier_versions_are_read() -> None:
    found = of_json(Row, {"name": "a", "note": "was left alone", "was_named": 1})
    assert (found.name, found.note, type(found.note)) == ("a", "was left alone", Text)


def test_fields_of_a_value_are_replaced_and_other_keys_stay() -> None:
    kept = {"rows": [{"name": "old"}], "depth": 4, "retries": 2}
    assert with_fields(kept, Wanted()) == {"retries": 2}
    assert with_fields(kept, Wanted(depth=5)) == {"depth": 5, "retries": 2}
