"""What the controllers of claims were last started with, kept beside their Leases: settings that would change claims
are refused until somebody agrees, as the embedded platform does with what its data directory remembers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from steelyard.compose.composed import Requirement
from steelyard.compose.offering import Offering
from steelyard.controllers.claims.lookup import Lookup
from steelyard.installation import consent
from steelyard.kube import errors, objects
from steelyard.kube.client.http import HttpClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS
from steelyard.management.preflight import CannotRun
from steelyard.settings import Chosen, Remembered, remembering

NAME: Final = "steelyard-remembered"
_KEY: Final = "platform.yaml"


async def check(
    client: HttpClient,
    namespace: str,
    chosen: Chosen,
    offering: Offering,
    *,
    accepts: bool,
    tell: Callable[[str], None],
) -> None:
    """Raises CannotRun where these settings would change claims and nobody has agreed. What is remembered from now on
    is what it is started with."""
    kept = await _kept(client, namespace)
    text = remembering.text(chosen)
    if kept == text:
        return
    if kept:
        origin = f"ConfigMap {namespace}/{NAME}"
        remembered = remembering.read(kept, origin, infrastructures=offering.infrastructure_names)
        outcome = await _foreseen(client, remembered, chosen, offering)
        if outcome.needs_consent and not accepts:
            lines = "\n".join(f"  {line}" for line in outcome.lines)
            raise CannotRun(
                f"with these settings claims would change; what was used last is in {origin}.\n{lines}\n"
                "Nothing was changed. To have it changed, start once with --accept-platform-change, or forget what was "
                f"used last: kubectl delete configmap {NAME} -n {namespace}"
            )
        for line in outcome.lines:
            tell(line)
    await _keep(client, namespace, text)


async def _foreseen(client: HttpClient, remembered: Remembered, chosen: Chosen, offering: Offering) -> consent.Outcome:
    domain = chosen.platform.domain
    claims = [claim for kind in offering.kinds for claim in (await client.list(kind.resource(domain))).items]
    loop, lookup = asyncio.get_running_loop(), Lookup(client)

    def look_up(requirement: Requirement) -> Sequence[Object]:
        return asyncio.run_coroutine_threadsafe(lookup.require(requirement), loop).result()

    # In a thread: composing all claims twice takes its time, and the Leases are to be renewed meanwhile.
    return await asyncio.to_thread(consent.compared, claims, look_up, remembered, chosen.platform, offering)


async def _kept(client: HttpClient, namespace: str) -> str:
    try:
        found = await client.get(CONFIG_MAPS, NAME, namespace)
    except errors.NotFound:
        return ""
    return str(objects.at(found, "data", _KEY) or "")


async def _keep(client: HttpClient, namespace: str, text: str) -> None:
    content: Object = {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {"name": NAME, "namespace": namespace},
        "data": {_KEY: text},
    }
    try:
        await client.create(CONFIG_MAPS, content)
    except errors.AlreadyExists:
        await client.patch(CONFIG_MAPS, NAME, {"data": {_KEY: text}}, namespace)
