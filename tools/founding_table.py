"""What a new platform begins with, for `src/steelyard/founding.txt`: made by a server that is given all of it the long
way, with gaps for what each server gives itself."""

from __future__ import annotations

import asyncio
import datetime
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final, cast

import orjson

from steelyard import app, defining, founding, groundwork, parts, standing
from steelyard.api import policies
from steelyard.api.clusterapi import definitions as clusterapi
from steelyard.compose import offering, shipped
from steelyard.kube import ages, objects
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from steelyard.kube.server.access import defaults
from steelyard.kube.server.api import Api
from steelyard.kube.server.space import premade
from steelyard.kube.server.space.premade import Premade
from steelyard.kube.store.record import Record
from steelyard.kube.store.store import Store
from steelyard.settings import Platform

_MOMENT: Final = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_SPACE: Final = "main/"
_KINDS: Final = (*defaults.RESOURCES.values(), CUSTOM_RESOURCE_DEFINITIONS, policies.POLICIES, policies.BINDINGS)
_TAKEN: Final = tuple(f"{_SPACE}{each.group}/{each.plural}/" for each in _KINDS)


def table() -> str:
    return asyncio.run(_made(Platform(domain=founding.DOMAIN)))


async def _made(platform: Platform) -> str:
    offered = offering.STANDARD
    groups: dict[str, list[Premade]] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = await Store.open(Path(folder) / "state.db", fsync=False)
        api = await Api.start(store, now=lambda: _MOMENT)
        client = LocalClient(api, app.CONTROLLERS, field_manager=app.FIELD_MANAGER)

        async def group(name: str, make: Callable[[], Awaitable[object]]) -> None:
            before = {each.key for each in _stored(store)}
            await make()
            groups[name] = [_with_gaps(each) for each in _stored(store) if each.key not in before]

        async def define(definitions: Iterable[Object]) -> None:
            own = [each for each in definitions if groundwork.is_own(each)]
            upstream = [each for each in definitions if not groundwork.is_own(each)]
            await defining.define(client, own, upstream, field_manager=app.FIELD_MANAGER, tell=print)

        await group(founding.ROLES, api.access.activate)
        await group(founding.KINDS, lambda: define(shipped.definitions(platform, offered)))
        await group(founding.LIFECYCLE, lambda: define(clusterapi.crds()))
        for provider in parts.PROVIDERS:
            await group(founding.of_provider(provider.name), lambda provider=provider: define(provider.definitions()))
        await group(founding.GUARDS, lambda: groundwork.guard_claims(api, client, platform, offered))
        await api.close()
        await store.close()
    return founding.text((kind.resource(platform.domain) for kind in offered.kinds), groups)


def _stored(store: Store) -> list[Record]:
    return [each for prefix in _TAKEN for each in store.scan(prefix)]


def _with_gaps(record: Record) -> Premade:
    obj = cast(Object, orjson.loads(record.value))
    known = {
        f'"uid":"{objects.uid(obj)}"': f'"uid":"{premade.UID}"',
        f'"{ages.timestamp(_MOMENT)}"': f'"{premade.MOMENT}"',
        f'"resourceVersion":"{record.revision}"': f'"resourceVersion":"{premade.REVISION}"',
    }
    text = record.value.decode()
    if founding.DOMAIN in text:
        known[f'"{objects.annotations(obj)[standing.DIGEST]}"'] = f'"{premade.DIGEST}"'
    for value, gap in known.items():
        text = text.replace(value, gap)
    return Premade(record.key.removeprefix(_SPACE), text.encode())
