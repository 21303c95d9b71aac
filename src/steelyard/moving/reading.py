"""Reads all that an API holds and that could move. Only who may list everything can say what belongs to a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from steelyard.api.claims import CATEGORY
from steelyard.kube import errors
from steelyard.kube.client import discovery
from steelyard.kube.client.discovery import Entry
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.moving import kinds
from steelyard.moving.belongings import Thing

_AT_ONCE: Final = 8
_PAGE: Final = 500


async def served(client: Client) -> list[Entry]:
    """The kinds of which objects could move."""

    async def fetch(path: str, accept: str) -> Any:
        return await client.request("GET", path, accept=accept)

    return [each for each in await discovery.entries(fetch) if kinds.may_belong(each.resource)]


def claims(entries: Iterable[Entry]) -> list[Resource]:
    return [each.resource for each in entries if CATEGORY in each.categories]


async def everything(
    client: Client, entries: Sequence[Entry], wanted: Iterable[Resource] | None = None, *, label_selector: str = ""
) -> list[Thing]:
    """Of all kinds that are served, or of the wanted ones."""
    claimed = set(claims(entries))
    resources = [each.resource for each in entries] if wanted is None else list(wanted)
    turns = asyncio.Semaphore(_AT_ONCE)

    async def listed(resource: Resource) -> list[Thing]:
        async with turns:
            found = await _pages(client, resource, label_selector)
        return [Thing(resource, each, is_claim=resource in claimed) for each in found]

    return [each for of_kind in await asyncio.gather(*map(listed, resources)) for each in of_kind]


async def _pages(client: Client, resource: Resource, label_selector: str) -> list[Object]:
    found: list[Object] = []
    token = ""
    while True:
        try:
            page = await client.list(resource, label_selector=label_selector, limit=_PAGE, continue_token=token)
        except (errors.NotFound, errors.MethodNotAllowed):
            return found
        found += page.items
        token = page.continue_token
        if not token:
            return found
