"""Authenticate a caller: a bearer token (scripts) or the session of a signed-in browser."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from console.access import services as access_services
from console.access.errors import TokenInvalid
from console.access.models import ApiToken
from console.access.rules import TokenPrincipal

SCHEME = "Bearer"
KEY_LENGTH_MAX = 200  # keys have 46 characters; longer ones are not hashed


class TokenAuthentication(BaseAuthentication):
    """``Authorization: Bearer tm_…``; a wrong key is 401, never anonymous.

    Other schemes are left to the session.
    """

    def authenticate(self, request: Request) -> tuple[TokenPrincipal, ApiToken] | None:
        parts = get_authorization_header(request).split()
        if not parts or parts[0].lower() != SCHEME.lower().encode():
            return None
        if len(parts) != 2 or len(parts[1]) > KEY_LENGTH_MAX:
            raise AuthenticationFailed("Send the header Authorization: Bearer <token>.")
        try:
            principal = access_services.authenticate_token(parts[1].decode("ascii"))
        except UnicodeDecodeError as error:
            raise AuthenticationFailed("A token has only ASCII characters. Copy it again.") from error
        except TokenInvalid as error:
            raise AuthenticationFailed(str(error)) from error
        return principal, principal.token

    def authenticate_header(self, request: Request) -> str:
        return f'{SCHEME} realm="tidemark"'


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The bearer token in the OpenAPI document."""

    target_class = "api.rest.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An API token (POST /api/v1/tokens)."}
