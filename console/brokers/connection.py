"""How a cluster is reached: name servers, TLS and access keys, as one value that every connection is made from.

Secrets are in it in clear text: it lives in memory only, and prints none of them.
"""

from __future__ import annotations

import secrets
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from brokerd.remoting.signature import AccessKeys
from consumers.client.tls import tls_context
from consumers.config import InvalidClientConfig, RemotingClientConfig

__all__ = ["AccessKeys", "Connection", "Tls", "split_addrs"]


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificates as PEM text. ``ca`` empty: the authorities of this system."""

    ca: str = ""
    check_host_name: bool = True
    certificate: str = ""
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Connection:
    """What connections to a cluster are made from; another value of the same ``cluster`` takes the place of the first.

    ``fault``: why no connection may be made with it, empty if one may.
    """

    namesrv_addrs: str
    tls: Tls | None = None
    keys: AccessKeys | None = None
    cluster: str = ""
    fault: str = ""

    @property
    def name(self) -> str:
        """Return what identifies its connections: the cluster, or the addresses of none."""
        return self.cluster or ";".join(split_addrs(self.namesrv_addrs))

    def client_config(self) -> RemotingClientConfig:
        """Return what a client is made with. Raises InvalidClientConfig for certificates that cannot be used."""
        if self.fault:
            raise InvalidClientConfig(self.fault)
        return RemotingClientConfig(
            ssl_context=None if self.tls is None else _context(self.tls), keys=self.keys
        )


def split_addrs(namesrv_addrs: str) -> list[str]:
    """Split "a:9876;b:9876" into ["a:9876", "b:9876"]; commas and spaces separate too."""
    return [addr for addr in namesrv_addrs.replace(",", ";").replace(" ", ";").split(";") if addr]


def _context(tls: Tls) -> ssl.SSLContext:
    """OpenSSL reads certificates of clients from files only: the key is in one for a moment, encrypted."""
    password = secrets.token_urlsafe(32)
    with TemporaryDirectory(prefix="tidemark-tls-") as folder:
        files: dict[str, Path] = {}
        for name, text in (("ca", tls.ca), ("certificate", tls.certificate)):
            if text:
                files[name] = Path(folder, f"{name}.pem")
                files[name].write_text(text, encoding="utf-8")
        if tls.key:
            files["key"] = Path(folder, "key.pem")
            files["key"].write_bytes(_encrypted(tls.key, password))
        return tls_context(
            files.get("ca"),
            check_host_name=tls.check_host_name,
            certificate_file=files.get("certificate"),
            key_file=files.get("key"),
            key_password=password,
        )


def _encrypted(pem: str, password: str) -> bytes:
    try:
        key = serialization.load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InvalidClientConfig(
            "the key of the client certificate is no private key (PEM) without a password"
        ) from error
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )
