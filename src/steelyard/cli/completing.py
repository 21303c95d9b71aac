"""What the shell offers after a tab: names of claims and of namespaces, asked of the API.

Nothing is said and nobody waits long where the API cannot be asked: whoever presses tab wants no message.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import typer

from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.resources import NAMESPACES

_PATIENCE = 1.5
"""Seconds; loading the program takes about half of one more."""

Ask = Callable[[Client, str], Coroutine[Any, Any, list[str]]]


def claims(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of all claims, in the namespace that was given, if one was."""
    return _asked(ctx.params, incomplete, _names_of_claims)


def namespaces(ctx: typer.Context, incomplete: str) -> list[str]:
    return _asked(ctx.params, incomplete, _names_of_namespaces)


def environments(ctx: typer.Context, incomplete: str) -> list[str]:
    """Those of the platform that was last started here; elsewhere the built-in ones."""
    from steelyard import settings
    from steelyard.cli import offered, session

    with contextlib.suppress(Exception):
        memory = session.locate(_path(ctx.params.get("data_dir"))).remembered
        found = settings.recall(memory, infrastructures=offered.infrastructure_names())
        platform = (found.platform if found is not None else None) or settings.Platform.known()
        return [name for name in platform.environment_names() if name.startswith(incomplete)]
    return []


async def _names_of_claims(client: Client, namespace: str) -> list[str]:
    from steelyard.cli import targets  # here: it needs the options, which name these functions

    found = [(await client.list(entry.resource, namespace)).items for entry in await targets.claims(client)]
    return [objects.name(obj) for items in found for obj in items]


async def _names_of_namespaces(client: Client, _namespace: str) -> list[str]:
    return [objects.name(obj) for obj in (await client.list(NAMESPACES)).items]


def _asked(parameters: Mapping[str, Any], incomplete: str, ask: Ask) -> list[str]:
    with contextlib.suppress(Exception), open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        names = asyncio.run(_ask(parameters, ask))
        return sorted({name for name in names if name.startswith(incomplete)})
    return []


async def _ask(parameters: Mapping[str, Any], ask: Ask) -> list[str]:
    from steelyard.cli import reach
    from steelyard.kube.client.http import HttpClient

    given = reach.Given(
        _path(parameters.get("data_dir")), _path(parameters.get("kubeconfig")), str(parameters.get("context") or "")
    )
    server = reach.choose(given)
    client = HttpClient(server.connection)
    try:
        async with asyncio.timeout(_PATIENCE):
            return await ask(client, str(parameters.get("namespace") or "") or server.namespace)
    finally:
        await client.close()


def _path(value: Any) -> Path | None:
    return Path(value) if value else None
