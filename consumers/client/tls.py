"""TLS towards name servers and brokers: an `ssl.SSLContext` for `RemotingClientConfig.ssl_context`."""

from __future__ import annotations

import os
import ssl

from consumers.config import InvalidClientConfig

FilePath = str | os.PathLike[str]


def tls_context(
    ca_file: FilePath | None = None,
    *,
    check_host_name: bool = True,
    certificate_file: FilePath | None = None,
    key_file: FilePath | None = None,
    key_password: str = "",
) -> ssl.SSLContext:
    """Verify brokers with the authorities in `ca_file` (PEM), without one with those of this system.

    The address that is connected to must stand in the certificate; with `check_host_name=False` any certificate of the
    authorities will do: routes name brokers by IP address. `certificate_file` and `key_file` (PEM) are what the client
    presents. Raises InvalidClientConfig naming the file.
    """
    for path in (ca_file, certificate_file, key_file):
        if path is not None:
            _check_readable(path)
    try:
        context = ssl.create_default_context(cafile=None if ca_file is None else os.fspath(ca_file))
    except ssl.SSLError as error:
        raise InvalidClientConfig(f"{ca_file} holds no certificate (PEM): {error.reason}") from error
    context.check_hostname = check_host_name
    if certificate_file is None:
        if key_file is not None:
            raise InvalidClientConfig(f"key file {key_file} has no certificate file")
        return context
    try:
        # A function: without one OpenSSL would read a password from the terminal.
        context.load_cert_chain(certificate_file, key_file, password=lambda: key_password)
    except ssl.SSLError as error:
        files = f"{certificate_file} and {key_file or 'the key inside'}"
        raise InvalidClientConfig(
            f"{files} are no certificate with its key (PEM), or the password is wrong: {error.reason}"
        ) from error
    return context


def _check_readable(path: FilePath) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise InvalidClientConfig(f"{os.fspath(path)}: {error.strerror}") from error
