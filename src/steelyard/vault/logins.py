"""How one logs in to Vault: with a token as it is, or by showing something for which Vault gives a token."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from steelyard.frozen import frozen
from steelyard.kube.objects import Object

ADDRESS: Final = "VAULT_ADDR"
TOKEN: Final = "VAULT_TOKEN"  # noqa: S105 (a name, not a token)
CA_FILE: Final = "VAULT_CACERT"
NAMESPACE: Final = "VAULT_NAMESPACE"


@frozen
class Token:
    """It is renewed while Vault renews it."""

    value: str


@frozen
class Exchange:
    """`show` gives what is written to the path, anew at each login: a secret id, a service account's token."""

    path: str
    show: Callable[[], Awaitable[Object]]


Login: TypeAlias = Token | Exchange


def app_role(mount: str, role_id: str, secret_id: Callable[[], Awaitable[str]]) -> Exchange:
    async def show() -> Object:
        return {"role_id": role_id, "secret_id": await secret_id()}

    return Exchange(f"auth/{mount}/login", show)


def kubernetes(mount: str, role: str, token: Callable[[], Awaitable[str]]) -> Exchange:
    async def show() -> Object:
        return {"role": role, "jwt": await token()}

    return Exchange(f"auth/{mount}/login", show)


def of_caller() -> Token | None:
    """As Vault's own command finds it: in the environment, or where `vault login` left it."""
    found = os.environ.get(TOKEN, "")
    if not found:
        with contextlib.suppress(OSError), open(os.path.expanduser("~/.vault-token"), encoding="utf-8") as file:
            found = file.read().strip()
    return Token(found) if found else None
