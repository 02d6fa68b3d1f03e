"""Secrets of clusters in the database: encrypted with a key derived from SECRET_KEY (Fernet: AES-128-CBC and HMAC).

Another SECRET_KEY cannot read them: they are entered again then.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

# What the key is for: the same SECRET_KEY signs sessions, with other keys.
PURPOSE = b"tidemark: secrets of clusters"


class SecretUnreadable(Exception):
    """It was stored with another SECRET_KEY."""


def seal(secret: str) -> str:
    """Return what is stored; of nothing, nothing."""
    return _fernet(settings.SECRET_KEY).encrypt(secret.encode()).decode() if secret else ""


def unseal(stored: str) -> str:
    """Return the secret. Raises SecretUnreadable."""
    try:
        return _fernet(settings.SECRET_KEY).decrypt(stored).decode() if stored else ""
    except InvalidToken as error:
        raise SecretUnreadable from error


@lru_cache(maxsize=4)
def _fernet(secret_key: str) -> Fernet:
    derived = HKDF(SHA256(), length=32, salt=None, info=PURPOSE).derive(secret_key.encode())
    return Fernet(urlsafe_b64encode(derived))
