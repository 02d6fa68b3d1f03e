"""`clusters`: list, add, change and remove the clusters of the console."""

import json
from argparse import BooleanOptionalAction
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.cluster import selectors, services
from console.cluster.connection_change import ConnectionChange
from console.cluster.errors import ClusterError
from console.cluster.models import Cluster


class Command(BaseCommand):
    help = "List, add, change and remove clusters."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help="list every cluster with its name servers")
        listing.add_argument("--format", choices=["table", "json"], default="table")
        adding = actions.add_parser("add", help="add a cluster; its name servers must answer first")
        adding.add_argument("name")
        adding.add_argument("namesrv_addrs", help="host:port, several separated by semicolons")
        adding.add_argument("--production", action="store_true", help="mark its pages with a colour band")
        _add_connection(adding)
        setting = actions.add_parser("set", help="change settings of a cluster; each change is audited")
        setting.add_argument("name")
        setting.add_argument("--namesrv-addrs", help="new name servers, which must answer first")
        setting.add_argument(
            "--production",
            dest="is_production",
            action=BooleanOptionalAction,
            help="mark its pages with a colour band",
        )
        setting.add_argument(
            "--typed-confirm-messages",
            type=int,
            help="from this many affected messages a name must be typed to confirm",
        )
        setting.add_argument(
            "--second-person-messages",
            type=int,
            help="from this many affected messages a second person must approve; -1: never",
        )
        setting.add_argument(
            "--poll-interval-s", type=int, help="seconds between two rounds of the collector"
        )
        _add_connection(setting)
        setting.add_argument("--no-tls", dest="tls", action="store_false", help="connect without TLS")
        setting.add_argument(
            "--clear-certificate", action="store_true", help="remove the client certificate and its key"
        )
        setting.add_argument(
            "--clear-keys", action="store_true", help="remove access key, secret key and token"
        )
        testing = actions.add_parser(
            "test", help="test a connection and list its problems: TLS, keys, permissions"
        )
        testing.add_argument("name")
        removing = actions.add_parser(
            "remove", help="remove a cluster from this console; the cluster itself is not changed"
        )
        removing.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['action']}")(**options)
        except ClusterError as error:
            raise CommandError(str(error)) from error
        except Cluster.DoesNotExist as error:
            raise CommandError(f"The cluster {options['name']} does not exist.") from error

    def _list(self, *, format: str, **_: Any) -> None:
        found = selectors.clusters()
        if format == "json":
            rows = [
                {
                    "name": one.name,
                    "namesrv_addrs": one.namesrv_addrs,
                    "is_embedded": one.is_embedded,
                    "is_production": one.is_production,
                }
                for one in found
            ]
            self.stdout.write(json.dumps(rows, indent=1))
            return
        for one in found:
            marks = [
                text for text, on in (("embedded", one.is_embedded), ("production", one.is_production)) if on
            ]
            self.stdout.write(f"{one.name:<20} {one.namesrv_addrs:<40} {' '.join(marks)}".rstrip())

    def _add(self, *, name: str, namesrv_addrs: str, production: bool, **options: Any) -> None:
        change = _connection_change(**options)
        services.add_cluster(name, namesrv_addrs, None, is_production=production, connection=change)
        self.stdout.write(f"{name} added")

    def _set(self, *, name: str, **options: Any) -> None:
        changes = {field: options[field] for field in services.CHANGEABLE if options.get(field) is not None}
        connection = _connection_change(**options)
        if changes.get("second_person_messages") == -1:
            changes["second_person_messages"] = None
        names = sorted([*changes, *connection.names()])
        if not names:
            raise CommandError("Give at least one setting; `clusters set --help` lists them.")
        services.change_cluster(name, None, connection=connection, **changes)
        self.stdout.write(f"{name} changed: {', '.join(names)}")

    def _test(self, *, name: str, **_: Any) -> None:
        findings = services.check_connection(selectors.cluster_by_name(name).connection)
        for finding in findings:
            self.stdout.write(str(finding.text))
        if findings:
            raise CommandError(f"The connection to {name} has {len(findings)} problem(s).")
        self.stdout.write(f"{name}: every name server and broker answered, no permission is missing")

    def _remove(self, *, name: str, **_: Any) -> None:
        services.remove_cluster(name, None)
        self.stdout.write(f"{name} removed")


def _add_connection(parser: CommandParser) -> None:
    """Add the options of TLS and keys. Secrets come from files: arguments of a process can be read by others."""
    parser.add_argument("--tls", action="store_true", default=None, help="connect with TLS")
    parser.add_argument("--tls-ca", metavar="FILE", help="CA certificates for the brokers (PEM)")
    parser.add_argument(
        "--tls-check-host",
        action=BooleanOptionalAction,
        help="check that the certificate is for the address (default: yes)",
    )
    parser.add_argument("--tls-certificate", metavar="FILE", help="certificate of this client (PEM)")
    parser.add_argument("--tls-key", metavar="FILE", help="its key")
    parser.add_argument("--access-key", help="access key that signs requests; for 5.x, a user name")
    parser.add_argument("--secret-key-file", metavar="FILE", help="file whose first line is its secret key")
    parser.add_argument(
        "--security-token-file", metavar="FILE", help="file whose first line is a security token"
    )


def _connection_change(
    *,
    namesrv_addrs: str | None = None,
    tls: bool | None,
    tls_ca: str | None,
    tls_check_host: bool | None,
    tls_certificate: str | None,
    tls_key: str | None,
    access_key: str | None,
    secret_key_file: str | None,
    security_token_file: str | None,
    clear_keys: bool = False,
    clear_certificate: bool = False,
    **_: Any,
) -> ConnectionChange:
    return ConnectionChange(
        namesrv_addrs=namesrv_addrs,
        uses_tls=tls,
        tls_ca=_text(tls_ca),
        tls_checks_host_name=tls_check_host,
        tls_certificate="" if clear_certificate else _text(tls_certificate),
        tls_key=_text(tls_key),
        access_key="" if clear_keys else access_key,
        secret_key=_first_line(secret_key_file),
        security_token=_first_line(security_token_file),
    )


def _text(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}") from error


def _first_line(file: str | None) -> str | None:
    text = _text(file)
    if text is None:
        return None
    line = text.partition("\n")[0].strip()
    if not line:
        raise CommandError(f"{file}: its first line is empty.")
    return line
