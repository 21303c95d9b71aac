"""The platform's login to Vault out of a file, kept in a Secret: stores know Secrets and no files.

The Secret is encrypted at rest as all are. Where the file is missing or cannot be read, what was read last stays.
"""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Final

from steelyard import standing
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS
from steelyard.kube.runtime import logs
from steelyard.settings.integrations import Vault

NAME: Final = "vault-login"
KEY: Final = "value"
EVERY: Final = 15.0
_LONGEST: Final = 64 << 10
_MANAGER: Final = "steelyard-vault"

_log = logs.get(__name__)


def path_of(settings: Vault) -> Path | None:
    """The file that the settings name; None where they name a Secret, or none is needed."""
    source = settings.auth.token or (settings.auth.app_role.secret_id if settings.auth.app_role else None)
    return Path(source.file) if source is not None and source.file else None


async def follow(client: Client, settings: Vault, path: Path) -> None:
    """Until it is cancelled."""
    while True:
        try:
            await take_over(client, settings, path)
        except errors.ApiError as error:
            _log.warning("the login to Vault could not be kept", error=str(error))
        await asyncio.sleep(EVERY)


async def take_over(client: Client, settings: Vault, path: Path) -> None:
    try:
        value = (await asyncio.to_thread(_read, path)).strip()
    except OSError as error:
        _log.warning("the file with the login to Vault cannot be read", file=str(path), error=error.strerror)
        return
    if not value:
        return
    namespace = settings.credentials_namespace
    metadata: Object = {"name": NAME, "namespace": namespace}
    data = {KEY: base64.b64encode(value).decode()}
    try:
        present = await client.get(SECRETS, NAME, namespace)
    except errors.NotFound:
        present = None
    if present is not None and objects.mapping(present.get("data")) == data:
        return
    secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
    await home(client, namespace)
    await client.apply(SECRETS, secret, field_manager=_MANAGER)


async def home(client: Client, namespace: str) -> None:
    """The namespace in which the platform keeps credentials."""
    made: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    try:
        await client.get(NAMESPACES, namespace)
    except errors.NotFound:
        await standing.ensure(client, NAMESPACES, made, field_manager=_MANAGER)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LONGEST)
