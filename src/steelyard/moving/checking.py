"""Looks at the target before anything is written anywhere: kinds, rights, names that are taken, whose the kinds are."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

from steelyard import defining
from steelyard.api import authors
from steelyard.api.crossplane import PROVIDER_CONFIGS
from steelyard.kube import errors, objects, permits
from steelyard.kube.client import discovery
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.permits import Permit
from steelyard.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS, Resource
from steelyard.kube.runtime import asking
from steelyard.moving import obstacles, reading, rewriting
from steelyard.moving.belongings import Belongings

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_WHO: Final = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)


async def problems(source: Client, target: Client, belongings: Belongings, move: str) -> list[str]:
    """Everything that stands against it there, each with what to do."""
    absent = await _absent(target, belongings.resources)
    if absent:
        return [
            f"the target does not know the kind {each.kind} ({each.group_resource}, {each.version}): install what "
            "defines it there, ours with: steelyard manifests -o DIR; kubectl apply --server-side -k DIR"
            for each in absent
        ]
    lacking = await _lacking(source, target, belongings)
    if lacking:
        return lacking
    owned = [str(each) for client in (source, target) for each in await _owned(client, belongings)]
    taken = await _taken(target, belongings, move)
    servers = await _servers(source, target, belongings)
    return [*owned, *taken, *servers] or await _refused(target, belongings, move)


async def mover(target: Client) -> authors.Author:
    """Who the copies are made by."""
    answer = await target.create(_WHO, {"apiVersion": _WHO.api_version, "kind": _WHO.kind})
    info = objects.mapping(objects.at(answer, "status", "userInfo"))
    return authors.Author(str(info.get("username") or ""), tuple(map(str, objects.sequence(info.get("groups")))))


async def _absent(target: Client, wanted: Sequence[Resource]) -> list[Resource]:
    async def fetch(path: str, accept: str) -> Any:
        return await target.request("GET", path, accept=accept)

    known: dict[str, dict[str, Resource]] = {}
    for api_version in dict.fromkeys(each.api_version for each in wanted):
        try:
            known[api_version] = await discovery.kinds(fetch, api_version)
        except errors.NotFound:
            known[api_version] = {}
    return [each for each in wanted if known[each.api_version].get(each.kind) != each]


async def _lacking(source: Client, target: Client, belongings: Belongings) -> list[str]:
    resources = belongings.resources
    reported = dict.fromkeys(each.resource for each in belongings.moving if each.object.get("status"))
    of_target: list[Permit] = [
        *permits.only(("get", "list", "create", "update", "patch", "delete"), *resources),
        *permits.only(("update",), *reported, subresource="status"),
        *permits.only(("get", "create"), NAMESPACES),
    ]
    of_source = permits.only(("get", "list", "patch", "delete"), *resources)
    of_record = [*permits.only(("get", "create", "patch", "delete"), CONFIG_MAPS), *permits.of_leases()]
    found: list[str] = []
    for client, wanted, where in ((target, of_target, "target"), (source, [*of_source, *of_record], "source")):
        missing = permits.words(await asking.missing(client, wanted))
        if missing:
            name = await asking.own_name(client)
            found += [f"{name} may not {each} at the {where}: use an account that may" for each in missing]
    return found


async def _owned(client: Client, belongings: Belongings) -> list[defining.Owner]:
    return await defining.owners(client, list(dict.fromkeys(each.resource for each in belongings.claims)))


async def _taken(target: Client, belongings: Belongings, move: str) -> list[str]:
    entries = await reading.served(target)
    wanted = list(dict.fromkeys(each.resource for each in belongings.moving))
    there = {each.place: each for each in await reading.everything(target, entries, wanted)}
    found: list[str] = []
    for each in belongings.moving:
        other = there.get(each.place)
        if other is None:
            continue
        mark = objects.labels(other.object).get(rewriting.MOVE, "")
        if mark == move:
            continue
        whose = f"the copy of another move ({mark})" if mark else "somebody else's"
        found.append(f"{each} is there already at the target, and is {whose}: delete it there, or give it another name")
    return found


async def _servers(source: Client, target: Client, belongings: Belongings) -> list[str]:
    """Databases stay where they are: the same server must be known by the same name at the target."""
    found: list[str] = []
    for name in obstacles.provider_configs(belongings):
        here, there = await _address(source, name), await _address(target, name)
        host, port = here
        if not host or host in _LOOPBACK:
            found.append(
                f"databases of ProviderConfig {name} are on a server that only its own machine reaches "
                f"({f'{host}:{port}' if host else 'not started'}), as the platform's own is: it stays there. "
                "Leave their claims behind with --leave-behind"
            )
        elif here != there:
            at_target = ":".join(there) if there[0] else "nothing"
            found.append(
                f"ProviderConfig {name} leads to {host}:{port} here, and to {at_target} at the target: make it there "
                "as it is here, with its Secret (postgresql.dsn in the platform file)"
            )
    return found


async def _address(client: Client, name: str) -> tuple[str, str]:
    """Host and port, empty where nobody knows."""
    try:
        config = await client.get(PROVIDER_CONFIGS, name)
        reference = objects.mapping(objects.at(config, "spec", "credentials", "connectionSecretRef"))
        secret = await client.get(SECRETS, str(reference.get("name")), str(reference.get("namespace")))
    except errors.NotFound:
        return "", ""
    encoded = (str(objects.at(secret, "data", key) or "") for key in ("endpoint", "port"))
    host, port = (base64.b64decode(each).decode(errors="replace") for each in encoded)
    return host, port


async def _refused(target: Client, belongings: Belongings, move: str) -> list[str]:
    """What the target would say to each copy, where its namespace is there to try it in."""
    who = await mover(target)
    own: dict[str, str] = {objects.uid(each.object): objects.uid(each.object) for each in belongings.moving}
    found: list[str] = []
    for each in belongings.moving:
        body: Object = rewriting.copy(each, move, own, who)
        try:
            await target.create(each.resource, body, dry_run=True)
        except (errors.NotFound, errors.BadRequest):
            # Its namespace is made first; and there are webhooks that know no trial.
            continue
        except (errors.Invalid, errors.Forbidden) as error:
            found.append(f"{each} would be refused by the target: {error.message}")
    return found
