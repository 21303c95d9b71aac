"""Stores that have the definitions of kinds in them already: written once, and then copied for each test.

    store = await prepared.store(folder / "main.db", "claims", define)

`define` is called with a client of an API on the first store of that key. Whatever it writes is then in every store of
the key, with the same UIDs: to write a hundred definitions takes longer than most of what is tested with them.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, Final

from steelyard.kube.client.interface import Client
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from steelyard.kube.runtime import conditions
from steelyard.kube.schema import structural
from steelyard.kube.server.api import Api
from steelyard.kube.store.store import Store

_SERVED_WITHIN: Final = 60.0
_FILES: Final = ("", ".acknowledged")
_KEPT: Final[dict[Hashable, dict[str, bytes]]] = {}


async def store(path: Path, key: Hashable, fill: Callable[[Client], Awaitable[Any]], **options: Any) -> Store:
    """With the options of `Store.open`. One that is there already is opened as it is."""
    if not path.exists():  # noqa: ASYNC240 (in memory)
        if key not in _KEPT:
            _KEPT[key] = await _made(path.parent, fill)
        for suffix, content in _KEPT[key].items():
            path.with_name(f"{path.name}{suffix}").write_bytes(content)
    return await Store.open(path, fsync=False, **options)


async def define(client: Client, definitions: Iterable[Object]) -> None:
    """As the platform does it, which vouches for them; until all are served."""
    for each in definitions:
        structural.vouch_for(each)
        await client.apply(CUSTOM_RESOURCE_DEFINITIONS, each, field_manager="test")
    async with asyncio.timeout(_SERVED_WITHIN):
        while not await _are_served(client):  # noqa: ASYNC110 (it is the server that does it)
            await asyncio.sleep(0.01)


async def _are_served(client: Client) -> bool:
    found = (await client.list(CUSTOM_RESOURCE_DEFINITIONS)).items
    return all(conditions.is_true(each, "Established") for each in found)


async def _made(place: Path, fill: Callable[[Client], Awaitable[Any]]) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(dir=place) as folder:
        path = Path(folder) / "store.db"
        opened = await Store.open(path, fsync=False)
        try:
            api = await Api.start(opened)
            try:
                await fill(LocalClient(api))
            finally:
                await api.close()
        finally:
            await opened.close()
        return {suffix: path.with_name(f"{path.name}{suffix}").read_bytes() for suffix in _FILES}
