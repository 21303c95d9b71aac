"""The consoles of machines, for whoever may get the machine: `steelyard logs machine` asks for them.

GET /steelyard.dev/v1/machinelogs?kind=KVMMachine&namespace=team-a&name=shop-control-plane-x7k2p
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Final

from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.transport.operations import About, Operation
from steelyard.providers.toolkit.provider import Console

PATH: Final = "/steelyard.dev/v1/machinelogs"
MOST_BYTES: Final = 1 << 20
"""Of a console, from its end: enough for many starts of a machine."""


def reading(consoles: Mapping[Resource, Console]) -> Operation:
    """`consoles` by the kind of machine."""
    by_kind = {resource.kind: resource for resource in consoles}

    def resource_of(options: Mapping[str, str]) -> Resource:
        kind = options.get("kind", "")
        if kind not in by_kind:
            known = ", ".join(sorted(by_kind)) or "no kind"
            raise errors.BadRequest(f"kind: {kind or 'nothing'} has no consoles that are kept; here {known} has")
        return by_kind[kind]

    def about(options: Mapping[str, str]) -> About:
        resource = resource_of(options)
        namespace, name = options.get("namespace", ""), options.get("name", "")
        if not (namespace and name):
            raise errors.BadRequest("say of which machine, with namespace and name")
        return About(resource.group, resource.plural, namespace, name)

    @contextlib.asynccontextmanager
    async def perform(options: Mapping[str, str]) -> AsyncGenerator[Object]:
        read = consoles[resource_of(options)]
        content = await read(options["namespace"], options["name"], last=MOST_BYTES)
        yield {"text": content.decode(errors="replace"), "isWhole": len(content) < MOST_BYTES}

    return Operation("GET", perform, about)
