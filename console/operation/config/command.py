"""What the commands ``topics`` and ``groups`` have in common: each action prints its plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.management.base import CommandParser
from msgspec import structs

from console.operation import services
from console.operation.command_line import (
    ChangeCommand,
    add_accepting,
    add_cluster,
    cluster_name,
)
from console.operation.config.change import ConfigParams
from console.operation.plan.params import Params
from console.text.stored import as_json

ACTIONS = ("create", "change", "quarantine", "release", "delete", "force_delete")


class ConfigCommand(ChangeCommand):
    """Base of ``topics`` and ``groups``.

    The subclass has its own `list` and defines the settings and what a deletion may also remove.
    """

    what: ClassVar[str]  # topic | group
    params_type: ClassVar[type[ConfigParams]]
    # What clients may not do in quarantine.
    quarantine_words: ClassVar[str]
    # Actions of this kind of object alone.
    also: ClassVar[tuple[str, ...]] = ()
    # Parameter of the deletion → what it does.
    delete_options: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        cls.kinds = tuple(f"{cls.what}_{step}" for step in (*ACTIONS, *cls.also))
        cls.confirms = f"the {cls.what}'s name, where the plan asks for it"

    def add_listing(self, listing: CommandParser) -> None:
        """Add the options of ``list``."""
        raise NotImplementedError

    def add_settings(self, planning: CommandParser) -> None:
        """Add the options of ``create`` and ``change``, one per parameter of the plan."""
        raise NotImplementedError

    def add_plan_actions(self, actions: Any) -> None:
        """Add the actions named in ``also``."""

    def settings(self, **options: Any) -> ConfigParams:
        """Return the settings that were given, as parameters of the plan."""
        raise NotImplementedError

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help=f"{self.what}s as the last round saw them")
        self.add_listing(listing)
        add_cluster(listing)
        for step, words in (
            ("create", f"plan a new {self.what}"),
            ("change", "plan a change; changes nothing"),
        ):
            planning = self.add_action(actions, step, words)
            self.add_settings(planning)
            planning.add_argument(
                "--broker", dest="brokers", action="append", help="may be repeated; all without it"
            )
        self.add_action(actions, "quarantine", f"plan that {self.quarantine_words}")
        self.add_action(actions, "release", "plan to end the quarantine")
        deleting = self.add_action(actions, "delete", "plan to delete it; only from quarantine")
        deleting.add_argument("--force", action="store_true", help="without quarantine")
        for name, words in self.delete_options.items():
            deleting.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=words)
        self.add_plan_actions(actions)
        self.add_change_actions(actions)

    def add_action(self, actions: Any, step: str, words: str) -> CommandParser:
        """Add an action on one object."""
        parser: CommandParser = actions.add_parser(step, help=words)
        parser.add_argument("name", metavar=self.what)
        add_cluster(parser)
        add_accepting(parser)
        return parser

    def _create(self, **options: Any) -> None:
        self.plan("create", self._with_brokers(**options), **options)

    def _change(self, **options: Any) -> None:
        self.plan("change", self._with_brokers(**options), **options)

    def _quarantine(self, **options: Any) -> None:
        self.plan("quarantine", Params(), **options)

    def _release(self, **options: Any) -> None:
        self.plan("release", Params(), **options)

    def _delete(self, *, force: bool, **options: Any) -> None:
        flags = {name: True for name in self.delete_options if options[name]}
        self.plan(
            "force_delete" if force else "delete", structs.replace(self.params_type(), **flags), **options
        )

    def _with_brokers(self, *, brokers: list[str] | None, **options: Any) -> ConfigParams:
        return structs.replace(self.settings(**options), brokers=tuple(brokers or ()))

    def plan(
        self,
        step: str,
        params: Params,
        *,
        name: str,
        cluster: str,
        format: str,
        accept_without: list[str] | None,
        **_: Any,
    ) -> None:
        """Make the plan of an action and print it."""
        wanted = structs.replace(params, accept_without=tuple(accept_without or ()))
        plan = services.create_plan(f"{self.what}_{step}", cluster_name(cluster), name, as_json(wanted), None)
        self.print_plan(plan, format)
