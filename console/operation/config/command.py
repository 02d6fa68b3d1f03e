"""What the commands ``topics`` and ``groups`` have in common: each action prints its plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.management.base import CommandParser

from console.operation import services
from console.operation.command_line import (
    ChangeCommand,
    accepting,
    add_accepting,
    add_cluster,
    cluster_name,
)

DEEDS = ("create", "change", "quarantine", "release", "delete", "force_delete")


class ConfigCommand(ChangeCommand):
    """Base of ``topics`` and ``groups``.

    The subclass has its own `list` and defines the settings and what a deletion may also remove.
    """

    what: ClassVar[str]  # topic | group
    # What clients may not do in quarantine.
    quarantine_words: ClassVar[str]
    # Actions of this kind of object alone.
    also: ClassVar[tuple[str, ...]] = ()
    # Parameter of the deletion → what it does.
    delete_options: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        cls.kinds = tuple(f"{cls.what}_{deed}" for deed in (*DEEDS, *cls.also))
        cls.confirms = f"the {cls.what}'s name, where the plan asks for it"

    def add_listing(self, listing: CommandParser) -> None:
        """Add the options of ``list``."""
        raise NotImplementedError

    def add_settings(self, planning: CommandParser) -> None:
        """Add the options of ``create`` and ``change``, one per parameter of the plan."""
        raise NotImplementedError

    def add_deeds(self, actions: Any) -> None:
        """Add the actions named in ``also``."""

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that were given, as parameters of the plan."""
        raise NotImplementedError

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help=f"{self.what}s as the last round saw them")
        self.add_listing(listing)
        add_cluster(listing)
        for deed, words in (
            ("create", f"plan a new {self.what}"),
            ("change", "plan a change; changes nothing"),
        ):
            planning = self.add_deed(actions, deed, words)
            self.add_settings(planning)
            planning.add_argument(
                "--broker", dest="brokers", action="append", help="may be repeated; all without it"
            )
        self.add_deed(actions, "quarantine", f"plan that {self.quarantine_words}")
        self.add_deed(actions, "release", "plan to end the quarantine")
        deleting = self.add_deed(actions, "delete", "plan to delete it; only from quarantine")
        deleting.add_argument("--force", action="store_true", help="without quarantine")
        for name, words in self.delete_options.items():
            deleting.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=words)
        self.add_deeds(actions)
        self.add_change_actions(actions)

    def add_deed(self, actions: Any, deed: str, words: str) -> CommandParser:
        """Add an action on one object."""
        parser: CommandParser = actions.add_parser(deed, help=words)
        parser.add_argument("name", metavar=self.what)
        add_cluster(parser)
        add_accepting(parser)
        return parser

    def _create(self, **options: Any) -> None:
        self.plan("create", self._wished(options), options)

    def _change(self, **options: Any) -> None:
        self.plan("change", self._wished(options), options)

    def _quarantine(self, **options: Any) -> None:
        self.plan("quarantine", {}, options)

    def _release(self, **options: Any) -> None:
        self.plan("release", {}, options)

    def _delete(self, **options: Any) -> None:
        params = {name: True for name in self.delete_options if options[name]}
        self.plan("force_delete" if options["force"] else "delete", params, options)

    def _wished(self, options: Mapping[str, Any]) -> dict[str, Any]:
        brokers = options["brokers"]
        return self.settings(options) | ({"brokers": brokers} if brokers else {})

    def plan(self, deed: str, params: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        """Make the plan of an action and print it."""
        cluster = cluster_name(options["cluster"])
        wanted = {**params, **accepting(options)}
        plan = services.create_plan(f"{self.what}_{deed}", cluster, options["name"], wanted, None)
        self.print_plan(plan, options["format"])
