"""Certificates for tests of TLS: an authority of its own, and what it issues."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Issued:
    """PEM files of one certificate."""

    certificate: Path
    key: Path

    @property
    def server_settings(self) -> dict[str, str]:
        """Settings of a broker that offers TLS with it."""
        return {"tls.server.certPath": str(self.certificate), "tls.server.keyPath": str(self.key)}


class Authority:
    """Signs certificates into files of `folder`; `certificate` is what clients trust."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self.certificate = folder / f"{name}.pem"
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        signed = self._builder(self._name, self._key.public_key(), 0, 365).add_extension(constraints, True)
        self._write(self.certificate, signed.sign(self._key, hashes.SHA256()))

    def issue(
        self,
        name: str,
        *,
        host: str = "127.0.0.1",
        from_days: int = -1,
        to_days: int = 30,
        password: str = "",
    ) -> Issued:
        """Certificate for the address `host`, valid between two numbers of days from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternative = x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))])
        builder = self._builder(_name(name), key.public_key(), from_days, to_days)
        issued = Issued(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        self._write(
            issued.certificate, builder.add_extension(alternative, False).sign(self._key, hashes.SHA256())
        )
        issued.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(password.encode())
                if password
                else serialization.NoEncryption(),
            )
        )
        return issued

    @property
    def trusting_properties(self) -> list[str]:
        """Properties of a JVM whose clients use TLS and verify what they reach."""
        return [
            "tls.enable=true",
            "tls.test.mode.enable=false",
            "tls.client.authServer=true",
            f"tls.client.trustCertPath={self.certificate}",
        ]

    def enforcing_properties(self, issued: Issued) -> list[str]:
        """Properties of Apache's broker and name server that take TLS alone, and reach each other by it."""
        settings = {**issued.server_settings, "tls.server.mode": "enforcing"}
        return [*self.trusting_properties, *(f"{key}={value}" for key, value in settings.items())]

    def client_context(self, issued: Issued | None = None) -> ssl.SSLContext:
        """Trust this authority alone; present `issued` when the server requests a certificate."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        if issued is not None:
            context.load_cert_chain(issued.certificate, issued.key)
        return context

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, from_days: int, to_days: int
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + from_days * DAY)
            .not_valid_after(now + to_days * DAY)
        )

    @staticmethod
    def _write(path: Path, certificate: x509.Certificate) -> None:
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
