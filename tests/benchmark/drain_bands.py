"""Goal G13 of lag.md 5: `python -m tests.benchmark.drain_bands`.

Do the bands of drain forecasts hold on traffic that they were not chosen on?

Backlogs of simulated groups (`tests.support.lag_reference`) are replayed as `jobs.forecast_scorecard` does: every five
minutes a forecast from what was known then, compared with what came. On one part of them, other seeds and other shapes
of traffic, the narrowest band that covers WANTED_PCT is chosen; coverage is measured on the rest, of that band and of
the one in the code (`spark.lag.forecast.BAND`). An episode is covered when its first band held the actual. The naive
way beside it: the band of one figure, so many per cent around a straight line from the backlog's beginning. Needs
neither Spark nor Java. Prints a JSON object per part.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spark.job import HourFiles, JobSpec
from spark.lag.folds.line import Line, late_queue_lines
from spark.lag.folds.replay import Backlog, backlogs, forecasts, window_at
from spark.lag.forecast import BAND, BandRule, band_of, since_largest
from spark.lag.local_time import HOUR_MS
from spark.lag.snapshot import Int64Array
from spark.sources.work import HistoryReader, work_items
from tests.support.lag_reference import START_MS, Size, write_history

GOAL_PCT, WANTED_PCT = 80, 82  # wanted with room, for another traffic may cover less
CHOSEN_ON = (("tide", 7), ("bursts", 8))
MEASURED_ON = (("tide", 201), ("campaign", 202), ("noise", 203), ("bursts", 204))
LOWS, ROOMS, SPREADS, GROWTHS = (10, 20), (0.3, 0.5, 0.75), (0, 1, 2), (0, 0.5)
HOURS = 12
FORECASTS_EACH = 12  # an hour of an episode


@dataclass(frozen=True, slots=True)
class Said:
    """One forecast with a number, of a backlog whose end was seen; `window` is what it was made from."""

    ms: int
    actual_ms: int
    window: tuple[Int64Array, Int64Array, Int64Array]
    straight_ms: float | None

    def band(self, rule: BandRule) -> tuple[int | None, int | None]:
        return band_of(*self.window, self.ms, rule)


@dataclass(frozen=True, slots=True)
class Part:
    """The backlogs of one simulated traffic, each with its first forecasts."""

    name: str
    episodes: Sequence[Sequence[Said]]


def simulated(shape: str, seed: int, folder: Path) -> Part:
    size = Size(40, 20, brokers=4, seed=seed, shape=shape)
    rows = write_history(size, folder, HOURS)
    files = [str(folder / row.path) for row in rows]
    day_ms = START_MS - START_MS % (24 * HOUR_MS)
    spec = JobSpec(
        job="forecast_scorecard",
        job_id="benchmark",
        from_ms=day_ms,
        to_ms=day_ms + 48 * HOUR_MS,
        hours=tuple(HourFiles("reference", START_MS + i * HOUR_MS, (files[i],)) for i in range(HOURS)),
        output=str(folder / "none"),
        as_of_ms=START_MS + HOURS * HOUR_MS,
        interval_ms=size.interval_ms,
    )
    found = []
    for item in work_items(spec, period_ms=24 * HOUR_MS):
        for windows in HistoryReader(item).blocks():
            for line in late_queue_lines(window.grid for window in windows).values():
                found += [said_of(line, backlog) for backlog in backlogs(line)]
    return Part(f"{shape}, seed {seed}", [said for said in found if said])


def said_of(line: Line, backlog: Backlog) -> list[Said]:
    """The first FORECASTS_EACH of a backlog's forecasts: one that lasts all day does not outweigh fifty others."""
    found = []
    for one in forecasts(line, backlog):
        if not one.ms or one.low_ms is None or one.actual_ms is None:
            continue
        at = int(np.searchsorted(line.t_ms, one.at_ms))
        fallen = int(line.lag[backlog.first] - line.lag[at])
        straight = (
            int(line.lag[at]) * (one.at_ms - int(line.t_ms[backlog.first])) / fallen if fallen > 0 else None
        )
        window = since_largest(*window_at(line, backlog, at))
        found.append(Said(one.ms, one.actual_ms, window, straight))
        if len(found) == FORECASTS_EACH:
            break
    return found


@dataclass(slots=True)
class Score:
    """How often bands held what came, and how wide they were: upper over lower end, of those that have one."""

    episodes: int = 0
    episodes_covered: int = 0
    forecasts: int = 0
    covered: int = 0
    open_ended: int = 0
    widths: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)

    def add(self, episode: Sequence[Said], rule: BandRule) -> None:
        held = []
        for one in episode:
            low_ms, high_ms = one.band(rule)
            assert low_ms is not None
            held.append(low_ms <= one.actual_ms and (high_ms is None or one.actual_ms <= high_ms))
            self.open_ended += high_ms is None
            if high_ms is not None:
                self.widths.append(high_ms / max(1, low_ms))
            self.errors.append(abs(one.ms - one.actual_ms) / max(1, one.actual_ms))
        self.episodes += 1
        self.episodes_covered += held[0]
        self.forecasts += len(held)
        self.covered += sum(held)

    @property
    def episodes_pct(self) -> float:
        return round(100 * self.episodes_covered / max(1, self.episodes), 1)

    @property
    def width(self) -> float:
        """The median over the bands with an end."""
        return float(np.median(self.widths)) if self.widths else 0.0

    def told(self) -> dict[str, Any]:
        return {
            "episodes": self.episodes,
            "episodes_covered_pct": self.episodes_pct,
            "forecasts": self.forecasts,
            "forecasts_covered_pct": round(100 * self.covered / max(1, self.forecasts), 1),
            "bands_without_end_pct": round(100 * self.open_ended / max(1, self.forecasts), 1),
            "median_upper_over_lower_end": round(self.width, 2),
            "median_error_pct": round(100 * float(np.median(self.errors)), 1) if self.errors else None,
        }


def score(parts: Sequence[Part], rule: BandRule) -> Score:
    found = Score()
    for part in parts:
        for episode in part.episodes:
            found.add(episode, rule)
    return found


def chosen(parts: Sequence[Part]) -> tuple[BandRule, list[dict[str, Any]]]:
    """The narrowest band of those that cover WANTED_PCT of episodes and of forecasts; the widest when none does. With
    what each of the tried ones gave.
    """
    tried = []
    for band in itertools.starmap(BandRule, itertools.product(LOWS, ROOMS, SPREADS, GROWTHS)):
        tried.append((band, score(parts, band)))
    enough = [
        (each.width, band)
        for band, each in tried
        if each.episodes_pct >= WANTED_PCT and 100 * each.covered >= WANTED_PCT * each.forecasts
    ]
    best = min(enough, key=lambda one: one[0])[1] if enough else tried[-1][0]
    return best, [{**asdict(band), **each.told()} for band, each in tried]


def straight_line(parts: Sequence[Part], share: float) -> dict[str, Any]:
    """The naive band: `share` around what is left at the mean pace since the backlog began, at the first moment."""
    firsts = [episode[0] for part in parts for episode in part.episodes]
    covered = sum(
        one.straight_ms is not None and abs(one.straight_ms - one.actual_ms) <= share * one.straight_ms
        for one in firsts
    )
    return {
        "around": share,
        "episodes": len(firsts),
        "episodes_covered_pct": round(100 * covered / max(1, len(firsts)), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--tried", action="store_true", help="print what every band gave on the choosing part"
    )
    asked = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="tidemark-benchmark-") as scratch:
        choosing, measuring = (
            [simulated(shape, seed, Path(scratch) / f"{shape}-{seed}") for shape, seed in part]
            for part in (CHOSEN_ON, MEASURED_ON)
        )
    best, tried = chosen(choosing)
    if asked.tried:
        for each in tried:
            print(json.dumps(each))
    print(
        json.dumps(
            {
                "chosen_on": [part.name for part in choosing],
                "band": asdict(best),
                **score(choosing, best).told(),
            }
        )
    )
    found = {
        "goal_episodes_covered_pct": GOAL_PCT,
        "measured_on": [part.name for part in measuring],
        "chosen_band": {**asdict(best), **score(measuring, best).told()},
        "band_in_the_code": {**asdict(BAND), **score(measuring, BAND).told()},
        "band_in_the_code_by_part": {part.name: score([part], BAND).told() for part in measuring},
        "naive_straight_line": straight_line(measuring, 0.5),
        "seconds": round(time.perf_counter() - started, 1),
    }
    print(json.dumps({"G13 drain bands, held out": found}), flush=True)


if __name__ == "__main__":
    main()
