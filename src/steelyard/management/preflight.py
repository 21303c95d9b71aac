"""Looks at an API before parts of the platform begin there: is it there, does it have the kinds, may we do what must be
done? What is missing is told at once, all of it, with what to do; nothing has been written by then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from steelyard import defining, parts
from steelyard.api.clusterapi import resources as capi
from steelyard.compose.offering import Offering
from steelyard.frozen import frozen
from steelyard.kube import errors, objects, permits
from steelyard.kube.client.http import HttpClient
from steelyard.kube.objects import Object
from steelyard.kube.permits import Permit
from steelyard.kube.resources import LEASES, Resource
from steelyard.kube.runtime import asking
from steelyard.providers.toolkit.provider import Provider
from steelyard.settings import Platform

_CLUSTER_API: Final = frozenset(each.group for each in capi.ALL)
_BUILT_IN: Final = ("", "apps", "batch", "policy", "autoscaling", "extensions")
_SHOWN: Final = 60
_PROBE: Final = "steelyard-preflight"


class CannotRun(Exception):
    """Nothing can be done there as it is; the message says why and what to do."""

    def __init__(self, message: str, *, is_unreachable: bool = False) -> None:
        super().__init__(message)
        self.is_unreachable = is_unreachable


@frozen
class Wanted:
    """What is to run."""

    parts: tuple[str, ...]
    platform: Platform
    offering: Offering
    providers: tuple[Provider, ...]

    @property
    def permits(self) -> list[Permit]:
        found = parts.needed(self.platform, self.offering, self.parts, self.providers)
        return [*found, *permits.of_every_controller()]

    @property
    def kinds(self) -> list[Resource]:
        """Those without which nothing works: other people's programs may be missing, with their kinds."""
        found: list[Resource] = []
        if parts.CLAIMS in self.parts:
            for kind in self.offering.kinds:
                found += (kind.resource(self.platform.domain), *(set(kind.makes) - set(kind.foreign)))
        if parts.LIFECYCLE in self.parts:
            found += capi.ALL
        for provider in self.providers:
            if provider.name in self.parts:
                found += (each.resource for each in provider.needed if each.verb == "watch")
        return sorted({each for each in found if not _is_built_in(each)}, key=lambda each: each.group_resource)

    @property
    def option(self) -> str:
        return f"--with {','.join(self.parts)}"


async def check(
    client: HttpClient, wanted: Wanted, *, lease_namespace: str = "", tell: Callable[[str], None]
) -> Offering:
    """The kinds of claims that are ours there. Raises CannotRun. `lease_namespace` is where Leases are to be held, if
    any are."""
    server = client.connection.server
    try:
        await client.request("GET", "/version")
        await _check_kinds(client, wanted, tell)
        await _check_rights(client, wanted, lease_namespace)
        if lease_namespace:
            await _check_namespace(client, lease_namespace)
        return await _ours(client, wanted, tell)
    except errors.ServiceUnavailable as error:
        text = f"{error.message}\nIs that the right address, and can it be reached from here?"
        raise CannotRun(text, is_unreachable=True) from error
    except errors.Unauthorized as error:
        raise CannotRun(
            f"{server} does not know whom the kubeconfig names: {error.message}. Get a new one, as tokens and "
            "certificates run out"
        ) from error
    except errors.ApiError as error:
        raise CannotRun(f"{server}: {error.message}") from error


async def _check_kinds(client: HttpClient, wanted: Wanted, tell: Callable[[str], None]) -> None:
    absent = await absent_kinds(client, wanted.kinds)
    of_others = [each for each in absent if each.group in _CLUSTER_API and parts.LIFECYCLE not in wanted.parts]
    ours = [each for each in absent if each not in of_others]
    if ours:
        raise CannotRun(
            f"{client.connection.server} does not know these kinds:\n{_lines(_defined(ours))}\n"
            f"Write their definitions and apply them: steelyard manifests -o DIR {wanted.option}; kubectl apply "
            "--server-side -k DIR"
        )
    if of_others:
        tell(
            f"Cluster API is missing, and no cluster will come about until it is there (clusterctl init, v1.11 or "
            f"later): {', '.join(_defined(of_others))}"
        )


async def _ours(client: HttpClient, wanted: Wanted, tell: Callable[[str], None]) -> Offering:
    if parts.CLAIMS not in wanted.parts:
        return wanted.offering
    domain = wanted.platform.domain
    owners = await defining.owners(client, [kind.resource(domain) for kind in wanted.offering.kinds])
    left = defining.left(wanted.offering, domain, owners)
    if not left.kinds:
        raise CannotRun(
            f"all kinds of claims are Crossplane's at {client.connection.server}, and nothing is left to do here: "
            f"{owners[0]}"
        )
    for owner in owners:
        tell(str(owner))
    return left


async def watch_owners(client: HttpClient, wanted: Wanted, pause: float) -> None:
    """Raises CannotRun once Crossplane has taken over a kind that was ours."""
    resources = [kind.resource(wanted.platform.domain) for kind in wanted.offering.kinds]
    while parts.CLAIMS in wanted.parts:
        await asyncio.sleep(pause)
        with contextlib.suppress(errors.ApiError):
            for owner in await defining.owners(client, resources):
                raise CannotRun(f"{owner}. Start it again to go on with the other kinds")
    await asyncio.get_running_loop().create_future()


async def absent_kinds(client: HttpClient, wanted: Iterable[Resource]) -> list[Resource]:
    """Those that are not served, in the version that is used here."""
    served: dict[str, set[str]] = {}
    found: list[Resource] = []
    for each in wanted:
        if each.api_version not in served:
            served[each.api_version] = await _plurals(client, each.api_version)
        if each.plural not in served[each.api_version]:
            found.append(each)
    return found


async def _plurals(client: HttpClient, api_version: str) -> set[str]:
    try:
        listed: Object = objects.mapping(await client.request("GET", f"/apis/{api_version}"))
    except errors.NotFound:
        return set()
    return {str(objects.mapping(each).get("name")) for each in objects.sequence(listed.get("resources"))}


async def _check_rights(client: HttpClient, wanted: Wanted, lease_namespace: str) -> None:
    lacking = permits.words(await asking.missing(client, wanted.permits))
    if lease_namespace:
        there = permits.words(await asking.missing(client, permits.of_leases(), lease_namespace))
        lacking += [f"{each} in namespace {lease_namespace}" for each in there]
    if lacking:
        name = await asking.own_name(client)
        raise CannotRun(
            f"{name} may not do what is needed at {client.connection.server}:\n{_lines(lacking)}\n"
            f"The rights are among what this writes: steelyard manifests -o DIR {wanted.option}"
        )


async def _check_namespace(client: HttpClient, namespace: str) -> None:
    lease: Object = {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": _PROBE, "namespace": namespace},
    }
    try:
        await client.create(LEASES, lease, dry_run=True)
    except errors.NotFound as error:
        raise CannotRun(
            f"there is no namespace {namespace} for the Lease by which one of several works: kubectl create namespace "
            f"{namespace}, or name another with --namespace"
        ) from error
    except errors.AlreadyExists:
        return


def _is_built_in(resource: Resource) -> bool:
    return resource.group in _BUILT_IN or (resource.group.endswith(".k8s.io") and "x-k8s.io" not in resource.group)


def _defined(absent: Iterable[Resource]) -> list[str]:
    return [f"{each.group_resource} ({each.version})" for each in absent]


def _lines(found: Sequence[str]) -> str:
    shown = [f"  {each}" for each in found[:_SHOWN]]
    if len(found) > _SHOWN:
        shown.append(f"  and {len(found) - _SHOWN} more")
    return "\n".join(shown)
