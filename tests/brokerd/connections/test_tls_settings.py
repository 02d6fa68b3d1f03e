"""Settings of TLS: each file or value that cannot be used is named at the start."""

from __future__ import annotations

import dataclasses

import pytest

from brokerd.config import ConfigError, TlsConfig
from brokerd.connections.tls import TlsContexts
from tests.support.certificates import Authority, Issued

BAD_FILES = {
    "missing certificate": ({"server_cert_path": "/nowhere.pem"}, r"certPath=/nowhere.pem: No such file"),
    "missing key": ({"server_key_path": "/nowhere.key"}, r"keyPath=/nowhere.key: No such file"),
    "no certificate": ({"server_cert_path": "KEY"}, r"certPath=.*server.key: holds no certificate"),
    "no key": ({"server_key_path": "CERTIFICATE"}, r"keyPath=.*server.pem: no private key"),
    "another's key": (
        {"server_key_path": "OTHER KEY"},
        r"keyPath=.*other.key: is not the key of tls.server.cert",
    ),
    "expired": ({"server_cert_path": "EXPIRED", "server_key_path": "EXPIRED KEY"}, r"has expired"),
    "not yet valid": ({"server_cert_path": "EARLY", "server_key_path": "EARLY KEY"}, r"is not yet valid"),
    "wrong password": (
        {"server_cert_path": "LOCKED", "server_key_path": "LOCKED KEY", "server_key_password": "no"},
        r"keyPath=.*opens with tls.server.keyPassword",
    ),
    "no password": (
        {"server_cert_path": "LOCKED", "server_key_path": "LOCKED KEY"},
        r"keyPath=.*opens with tls.server.keyPassword",
    ),
    "certificate alone": ({"server_key_path": ""}, r"go together; set both"),
    "key alone": ({"server_cert_path": ""}, r"go together; set both"),
    "enforcing without": (
        {"server_mode": "enforcing", "server_cert_path": "", "server_key_path": ""},
        r"mode=enforcing: needs a certificate; set tls.server.certPath",
    ),
    "unknown mode": ({"server_mode": "strict"}, r"mode=strict: takes disabled, permissive, enforcing"),
    "unknown need": ({"server_need_client_auth": "yes"}, r"auth=yes: takes none, optional, require"),
    "require without trust": ({"server_need_client_auth": "require"}, r"needs tls.server.authClient=true"),
    "verify without need": ({"server_auth_client": True}, r"need.client.auth=require or optional"),
    "enable without trust": ({"enable": True}, r"tls.enable=true: needs tls.client.trustCertPath"),
    "client key alone": (
        {"enable": True, "client_auth_server": False, "client_key_path": "CLIENT KEY"},
        r"tls.client.certPath and tls.client.keyPath go together",
    ),
    "trust missing": (
        {
            "server_need_client_auth": "optional",
            "server_auth_client": True,
            "server_trust_cert_path": "/nowhere.pem",
        },
        r"trustCertPath=/nowhere.pem: No such file",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_it_names_what_is_wrong_with_a_setting(authority: Authority, server: Issued, case: str) -> None:
    changes, says = BAD_FILES[case]
    expired = authority.issue("expired", from_days=-2, to_days=-1)
    early = authority.issue("early", from_days=1)
    locked = authority.issue("locked", password="yes")
    paths = {
        "KEY": server.key,
        "CLIENT KEY": server.key,
        "CERTIFICATE": server.certificate,
        "OTHER KEY": authority.issue("other").key,
        "EXPIRED": expired.certificate,
        "EXPIRED KEY": expired.key,
        "EARLY": early.certificate,
        "EARLY KEY": early.key,
        "LOCKED": locked.certificate,
        "LOCKED KEY": locked.key,
    }
    good = TlsConfig(server_cert_path=str(server.certificate), server_key_path=str(server.key))
    values = {
        name: str(paths.get(value, value)) if isinstance(value, str) else value
        for name, value in changes.items()
    }
    assert TlsContexts(good).server is not None
    with pytest.raises(ConfigError, match=says):
        TlsContexts(dataclasses.replace(good, **values))


def test_it_opens_a_key_with_its_password(authority: Authority) -> None:
    locked = authority.issue("opened", password="yes")
    config = TlsConfig(
        server_cert_path=str(locked.certificate), server_key_path=str(locked.key), server_key_password="yes"
    )
    assert TlsContexts(config).server is not None
    assert "yes" not in repr(config), "a password stands in no log line"
