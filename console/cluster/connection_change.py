"""Change how a cluster is reached: name servers, TLS, access keys. Secrets go in and never come out again."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from console.cluster.errors import ConnectionSettingInvalid
from console.cluster.models import Cluster
from console.cluster.sealed import seal
from console.text import Text

SECRETS = ("tls_key", "secret_key", "security_token")
PEM = ("tls_ca", "tls_certificate")
# More than a chain of authorities has.
PEM_CHARACTERS_MAX = 100_000
KEY_CHARACTERS_MAX = 255
TOKEN_CHARACTERS_MAX = 4_000
# How an audit event shows what it must not, or what is too long for it.
STORED, NONE = "stored", ""


@dataclass(frozen=True, slots=True)
class ConnectionChange:
    """Settings to store. None keeps what is stored; an empty text removes it.

    An access key goes with its secret key and token, a certificate with its key: to remove the first removes them.
    """

    namesrv_addrs: str | None = None
    uses_tls: bool | None = None
    tls_ca: str | None = None
    tls_checks_host_name: bool | None = None
    tls_certificate: str | None = None
    access_key: str | None = None
    tls_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)

    def names(self) -> list[str]:
        """Return what it changes, sorted."""
        return sorted(each.name for each in fields(self) if getattr(self, each.name) is not None)

    def apply_to(self, cluster: Cluster) -> None:
        """Set the columns of a row, which the caller saves. Raises ConnectionSettingInvalid."""
        self._require_fitting(cluster)
        for name in self.names():
            value = getattr(self, name)
            if name in SECRETS:
                setattr(cluster, f"{name}_sealed", seal(value))
            else:
                setattr(cluster, name, value)
        if self.access_key == "":
            cluster.secret_key_sealed = cluster.security_token_sealed = ""
        if self.tls_certificate == "":
            cluster.tls_key_sealed = ""
        _require_pairs(cluster)

    def audited(self, cluster: Cluster) -> dict[str, str | bool]:
        """Return the columns it changes, without secrets, as they are in a row now."""
        names = {*self.names()}
        names |= {"secret_key", "security_token"} if self.access_key == "" else set()
        names |= {"tls_key"} if self.tls_certificate == "" else set()
        return {name: _audited(cluster, name) for name in sorted(names)}

    def _require_fitting(self, cluster: Cluster) -> None:
        if self.access_key and self.access_key != cluster.access_key and not self.secret_key:
            raise ConnectionSettingInvalid(
                Text("Also enter the secret key of the access key %(name)s.", name=self.access_key),
                "secret_key",
            )
        for name, most in (
            ("access_key", KEY_CHARACTERS_MAX),
            ("secret_key", KEY_CHARACTERS_MAX),
            ("security_token", TOKEN_CHARACTERS_MAX),
            *((name, PEM_CHARACTERS_MAX) for name in (*PEM, "tls_key")),
        ):
            if len(getattr(self, name) or "") > most:
                raise ConnectionSettingInvalid(Text("At most %(most)s characters.", most=most), name)
        _require_readable(self)
        if self.tls_certificate and self.tls_certificate != cluster.tls_certificate and not self.tls_key:
            raise ConnectionSettingInvalid(Text("Also enter the key of this certificate."), "tls_key")


def _require_readable(change: ConnectionChange) -> None:
    if change.tls_ca:
        _certificates(change.tls_ca, "tls_ca")
    if change.tls_certificate:
        shown = _certificates(change.tls_certificate, "tls_certificate")[0].public_key()
        if change.tls_key and _public_key(change.tls_key) != shown:
            raise ConnectionSettingInvalid(Text("This key does not belong to the certificate."), "tls_key")
    elif change.tls_key:
        raise ConnectionSettingInvalid(Text("Also enter the certificate of this key."), "tls_certificate")


def _certificates(pem: str, name: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem.encode())
    except ValueError as error:
        raise ConnectionSettingInvalid(
            Text("This is not a PEM certificate: it must begin with -----BEGIN CERTIFICATE-----."), name
        ) from error


def _public_key(pem: str) -> PublicKeyTypes:
    try:
        return serialization.load_pem_private_key(pem.encode(), None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConnectionSettingInvalid(
            Text("This is not a PEM private key, or it is protected by a password."), "tls_key"
        ) from error


def _require_pairs(cluster: Cluster) -> None:
    if bool(cluster.access_key) != bool(cluster.secret_key_sealed):
        name = "secret_key" if cluster.access_key else "access_key"
        raise ConnectionSettingInvalid(Text("An access key and its secret key are set together."), name)
    if cluster.security_token_sealed and not cluster.access_key:
        raise ConnectionSettingInvalid(Text("A security token needs an access key."), "access_key")
    if bool(cluster.tls_certificate) != bool(cluster.tls_key_sealed):
        name = "tls_key" if cluster.tls_certificate else "tls_certificate"
        raise ConnectionSettingInvalid(Text("A client certificate and its key are set together."), name)


def _audited(cluster: Cluster, name: str) -> str | bool:
    if name in SECRETS:
        return STORED if getattr(cluster, f"{name}_sealed") else NONE
    value: str | bool = getattr(cluster, name)
    if name in PEM and value:
        return _certificates(str(value), name)[0].subject.rfc4514_string()
    return value
