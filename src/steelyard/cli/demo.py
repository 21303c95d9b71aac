"""`steelyard up --demo`: claims three example clusters and shows them coming up in a live table."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable

from rich.console import Console
from rich.live import Live
from rich.table import Table

from steelyard.api import state
from steelyard.cli import offered, output, targets
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, Resource

NAMESPACE = "demo"
CLAIMS = (("shop-dev", "dev"), ("shop-staging", "staging"), ("shop-production", "production"))
_COLUMNS = ("Cluster", "Environment", "Version", "Control plane", "Workers", "State", "What is going on")


async def show(client: Client) -> None:
    """Runs until cancelled. On a terminal the table is redrawn in place; elsewhere each change is a line."""
    resource = (await targets.of_kind(client, offered.current().kinds[0])).resource
    await _claim(client, resource)
    if sys.stderr.isatty():
        with Live(_table([]), console=Console(stderr=True, highlight=False), auto_refresh=False) as live:
            await _follow(client, resource, lambda claims: live.update(_table(claims), refresh=True))
    else:
        last: dict[str, tuple[str, ...]] = {}

        def print_changes(claims: list[Object]) -> None:
            for claim in claims:
                row = _row(claim)
                if last.get(row[0]) != row:
                    last[row[0]] = row
                    output.note("  ".join(row))

        await _follow(client, resource, print_changes)


async def _claim(client: Client, resource: Resource) -> None:
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for name, environment in CLAIMS:
        claim: Object = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"parameters": {"environment": environment}},
        }
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(resource, claim)


async def _follow(client: Client, resource: Resource, draw: Callable[[list[Object]], None]) -> None:
    while True:
        listed = await client.list(resource)
        claims = {objects.uid(claim): claim for claim in listed.items}
        draw(objects.by_name(claims.values()))
        try:
            async for event in client.watch(resource, resource_version=listed.resource_version):
                if event.type == "BOOKMARK":
                    continue
                if event.type == "DELETED":
                    claims.pop(objects.uid(event.object), None)
                else:
                    claims[objects.uid(event.object)] = event.object
                draw(objects.by_name(claims.values()))
        except (errors.Expired, errors.ServiceUnavailable):
            await asyncio.sleep(1)


def _table(claims: list[Object]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in _COLUMNS:
        table.add_column(column)
    for claim in claims:
        row = _row(claim)
        table.add_row(*row, style="green" if state.is_ready(claim) else "yellow")
    return table


def _row(claim: Object) -> tuple[str, ...]:
    here = state.of(claim)
    return (
        objects.qualified_name(claim),
        str(objects.at(claim, "spec", "parameters", "environment")),
        str(objects.at(claim, "status", "parameters", "kubernetesVersion") or ""),
        str(objects.at(claim, "status", "controlPlane", "summary") or ""),
        str(objects.at(claim, "status", "workers", "summary") or ""),
        here.word,
        here.text,
    )
