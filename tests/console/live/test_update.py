"""Changed rows of a live subject: merging, the channel format, frames in each language."""

from __future__ import annotations

import datetime as dt
import json
import zoneinfo
from collections.abc import Mapping
from typing import Any

from console.live.update import Update, merged
from console.text import Moment, Text
from console.text.locale import Locale
from spark.lag.codes import LagStatus

NOW_MS = 1_790_000_000_000


def update(sequence: int, rows: Mapping[str, Any], *, full: bool = False) -> Update:
    return Update.of("s", sequence, NOW_MS, full, rows)


def test_it_merges_changes_row_by_row() -> None:
    both = merged(update(1, {"a": {"n": 1}, "b": None}), update(2, {"a": {"n": 2}}))
    assert (both.sequence, both.full, both.rows) == (2, False, {"a": {"n": 2}, "b": None})


def test_it_drops_removed_rows_from_a_merged_base() -> None:
    both = merged(update(1, {"a": {"n": 1}, "b": {"n": 1}}, full=True), update(2, {"b": None}))
    assert (both.sequence, both.full, both.rows) == (2, True, {"a": {"n": 1}})


def test_it_forgets_everything_before_a_base() -> None:
    base = update(2, {"a": {"n": 2}}, full=True)
    assert merged(update(1, {"z": {"n": 1}}), base) is base


def test_it_reads_its_own_channel_format() -> None:
    read = Update.from_channel(b'7 1790000000000 d c/local/group/a b\n{"q":9,"gone":4}\n{"lag":3}null')
    assert (read.subject, read.sequence, read.full) == ("c/local/group/a b", 7, False)
    assert json.loads(read.frame(Locale("en"))) == {
        "subject": "c/local/group/a b",
        "seq": 7,
        "at_ms": 1790000000000,
        "full": False,
        "rows": {"q": {"lag": 3}, "gone": None},
    }


def test_it_cuts_a_page_out_of_an_update_once_for_everybody_who_shows_it() -> None:
    all_rows = update(3, {"a": {"n": 1}, "b": {"n": 2}})
    page = all_rows.keyed(frozenset({"b", "c"}))
    assert page.rows == {"b": {"n": 2}}
    assert all_rows.keyed(frozenset({"c", "b"})) is page


def test_a_text_is_in_the_words_of_each_reader_and_everything_else_as_it_was() -> None:
    reason = Text("%(number)s queue(s) {stays|stay} unchanged", number=3)
    made = update(
        4, {"a": {"reason": reason, "status": LagStatus.OK, "texts": [reason], "n": 1}, "b": {"n": 2}}
    )
    english, chinese = (json.loads(made.frame(Locale(code)))["rows"] for code in ("en", "zh-hans"))
    said = "3 queues stay unchanged"
    assert english == {"a": {"reason": said, "status": "OK", "texts": [said], "n": 1}, "b": {"n": 2}}
    said = "3 个队列保持不变"
    assert chinese == {"a": {"reason": said, "status": "OK", "texts": [said], "n": 1}, "b": {"n": 2}}
    assert made.frame(Locale("en")) is made.frame(Locale("en"))


def test_a_time_in_a_text_is_in_the_zone_of_each_reader() -> None:
    made = update(5, {"a": {"reason": Text("silent since %(time)s", time=Moment(1_741_766_774_000))}})
    frames = [made.frame(Locale("en", zone)) for zone in (dt.UTC, zoneinfo.ZoneInfo("Asia/Shanghai"))]
    assert [json.loads(frame)["rows"]["a"]["reason"] for frame in frames] == [
        "silent since 12 Mar 2025 08:06:14 UTC",
        "silent since 12 Mar 2025 16:06:14 UTC+8",
    ]
