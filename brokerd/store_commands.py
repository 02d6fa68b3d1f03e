"""`python -m brokerd check` and `repair`: what is wrong with a stopped store, and what can be done about it.

Exit codes: 0 sound (or repaired), 1 faults were found, 2 a setting is wrong, 4 the store cannot be looked at.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from brokerd.config import ConfigError, build, read_properties
from brokerd.store.errors import StoreError
from brokerd.store.files.store_lock import StoreLock
from brokerd.store.recovery.repair import Repair
from brokerd.store.recovery.survey import Survey, Surveyor
from brokerd.store.store_config import MessageStoreConfig

COMMANDS = ("check", "repair")
EXIT_FAULTS, EXIT_CONFIG, EXIT_STORE = 1, 2, 4


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    try:
        config = read_config(options.store, options.config, options.set)
    except (ConfigError, OSError, ValueError) as error:
        return fail(EXIT_CONFIG, str(error))
    if not config.commit_log_dir.is_dir():
        return fail(EXIT_STORE, f"{config.commit_log_dir} is not a folder: --store names the folder above it")
    lock = StoreLock(config.store_path_root_dir)
    try:
        lock.acquire()
        return check(config) if options.command == "check" else repair(config, apply=options.apply)
    except (StoreError, OSError, ValueError) as error:
        return fail(EXIT_STORE, str(error))
    finally:
        lock.release()


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m brokerd")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("check", "Inspect every file of a stopped store; nothing is changed."),
        ("repair", "Print how the faults of a stopped store would be repaired; with --apply, repair them."),
    ):
        command = commands.add_parser(name, description=text)
        command.add_argument(
            "--store", type=Path, required=True, metavar="DIR", help="folder of the store (storePathRootDir)"
        )
        command.add_argument("-c", "--config", type=Path, metavar="FILE", help="the broker's property file")
        command.add_argument(
            "--set", action="append", default=[], metavar="KEY=VALUE", help="one setting; may be repeated"
        )
        if name == "repair":
            command.add_argument("--apply", action="store_true", help="repair the store")
    return parser.parse_args(arguments)


def read_config(root: Path, config_file: Path | None, assignments: Sequence[str]) -> MessageStoreConfig:
    """The broker's settings; file sizes that are not given are those of the files. Raises ConfigError, OSError."""
    properties = read_properties(config_file.read_text("utf-8")) if config_file is not None else {}
    for assignment in assignments:
        key, separator, value = assignment.partition("=")
        if not separator:
            raise ConfigError(f"--set {assignment}: takes key=value")
        properties[key.strip()] = value.strip()
    log_dir = Path(properties.get("storePathCommitLog") or root / "commitlog")
    found = {
        "mappedFileSizeCommitLog": common_size(log_dir),
        "mappedFileSizeConsumeQueue": common_size(root / "consumequeue"),
    }
    sizes = {key: str(size) for key, size in found.items() if size}
    merged = {**sizes, **properties, "storePathRootDir": str(root)}
    return build(MessageStoreConfig, merged)


def common_size(directory: Path) -> int:
    """Return the size that most files named by offset have, 0 without any: every file but a damaged one has it."""
    if not directory.is_dir():
        return 0
    sizes = Counter(
        path.stat().st_size for path in directory.rglob("*") if len(path.name) == 20 and path.name.isdecimal()
    )
    sizes.pop(0, None)
    return max(sizes, key=lambda size: (sizes[size], size)) if sizes else 0


def check(config: MessageStoreConfig) -> int:
    survey = Surveyor(config).look()
    report(survey)
    if not survey.faults:
        write_line("The store is sound.")
        return 0
    write_line(
        f"{len(survey.faults)} faults. `python -m brokerd repair --store {config.store_path_root_dir}` shows the plan."
    )
    return EXIT_FAULTS


def repair(config: MessageStoreConfig, *, apply: bool) -> int:
    surveyor = Surveyor(config)
    survey = surveyor.look()
    report(survey)
    if not survey.faults:
        write_line("Nothing to repair.")
        return 0
    if not apply:
        write_line(
            "Nothing was changed. With --apply this is done, and what is removed is kept next to the store."
        )
        return EXIT_FAULTS
    root = config.store_path_root_dir
    side = root / time.strftime("repair-%Y%m%d-%H%M%S")
    work = Repair(config, side)
    if survey.files_misshapen:
        work.shape_log_files()
        surveyor = Surveyor(config)
        survey = surveyor.look()
        report(survey)
    work.fill_holes(surveyor.files, survey)
    work.keep_tail(surveyor.files, survey.log_end)
    work.move_aside(survey)
    work.leave_as_crashed(survey, surveyor.checkpoint, surveyor.table)
    write_line(
        f"Repaired. What was replaced is in {side}; the next start builds queues and index from the log."
    )
    return 0


def report(survey: Survey) -> None:
    for note in survey.notes:
        write_line(note)
    for fault in survey.faults:
        write_line(f"FAULT {fault}")


def write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def fail(code: int, reason: str) -> int:
    sys.stderr.write(f"brokerd: {reason}\n")
    return code
