"""What a command is about: from `cluster dev`, `cluster/dev` or plain `dev` to a resource and an object.

Claims come first: `cluster` means our WorkloadCluster (as in `create cluster`), and a plain name is a claim's. Any
other resource is found by its plural, kind or short name, as kubectl does it, with the group after a dot where needed.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from steelyard.cli.exits import CommandError, Exit
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client import discovery
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

CLAIM_KIND = "WorkloadCluster"
_COMPARED = 500
_CLAIM_NAMES = ("cluster", "clusters", "claim", "claims", "workloadcluster", "workloadclusters", "wc")


@frozen
class Target:
    kind: str
    """As the user wrote it; empty means the claim."""
    name: str


def parse(words: Sequence[str]) -> Target:
    """`["dev"]`, `["cluster/dev"]` and `["cluster", "dev"]` all name the claim dev."""
    match list(words):
        case [name] if "/" in name:
            kind, _, name = name.partition("/")
            return Target(kind, name)
        case [name]:
            return Target("", name)
        case [kind, name]:
            return Target(kind, name)
        case _:
            raise CommandError("name one object: NAME, KIND/NAME or KIND NAME", code=Exit.USAGE)


async def claim_resource(client: Client) -> Resource:
    """The claim's resource in this platform's domain, whatever that domain is."""
    for resource in await client.discover():
        if resource.kind == CLAIM_KIND and resource.group.startswith("compute."):
            return resource
    raise CommandError("this API serves no WorkloadCluster: is it a Steelyard platform?")


async def resource(client: Client, kind: str) -> Resource:
    """The resource that the user means by `kind`."""
    if not kind or kind.lower() in _CLAIM_NAMES:
        return await claim_resource(client)
    name, _, group = kind.lower().partition(".")
    served = await client.discover()
    for candidate in served:
        is_meant = name in (candidate.plural, candidate.kind.lower())
        if is_meant and (not group or candidate.group == group):
            return candidate
    short = await _with_short_name(client, name) if not group else set[tuple[str, str]]()
    for candidate in served:
        if (candidate.group, candidate.plural) in short:
            return candidate
    raise CommandError(
        f'there is no resource "{kind}"; a claim is named with its kind: cluster {kind}. '
        "`kubectl api-resources` lists all kinds"
    )


async def _with_short_name(client: Client, name: str) -> set[tuple[str, str]]:
    """Group and plural of every resource with that short name; none where the server has no aggregated discovery."""
    found: set[tuple[str, str]] = set()
    for path in ("/api", "/apis"):
        document = objects.mapping(await client.request("GET", path, accept=discovery.AGGREGATED))
        for group in map(objects.mapping, objects.sequence(document.get("items"))):
            for version in map(objects.mapping, objects.sequence(group.get("versions"))):
                entries = map(objects.mapping, objects.sequence(version.get("resources")))
                found |= {
                    (objects.name(group), str(entry.get("resource")))
                    for entry in entries
                    if name in objects.sequence(entry.get("shortNames"))
                }
    return found


async def _no_such(client: Client, wanted: Resource, name: str) -> str:
    """That there is none of the name, with the one that was most likely meant."""
    names = {
        objects.name(obj): objects.qualified_name(obj) for obj in (await client.list(wanted, limit=_COMPARED)).items
    }
    close = difflib.get_close_matches(name, names, n=1)
    text = errors.not_found(wanted.group_resource, name).message
    what = "claims" if wanted.kind == CLAIM_KIND else wanted.plural
    listing = "steelyard get" if wanted.kind == CLAIM_KIND else f"steelyard get {wanted.plural}"
    return f"{text}; did you mean {names[close[0]]}?" if close else f"{text}; {listing} lists all {what}"


async def find(client: Client, target: Target, namespace: str) -> tuple[Resource, Object]:
    """The object. Without a namespace it is looked for in all of them, and must be the only one of its name."""
    wanted = await resource(client, target.kind)
    if namespace or not wanted.namespaced:
        return wanted, await client.get(wanted, target.name, namespace)
    found = (await client.list(wanted, field_selector=f"metadata.name={target.name}")).items
    if not found:
        raise errors.NotFound(await _no_such(client, wanted, target.name))
    if len(found) > 1:
        places = ", ".join(sorted(objects.namespace(obj) for obj in found))
        raise CommandError(
            f'several {wanted.plural} are named "{target.name}", in the namespaces {places}; use --namespace',
            code=Exit.USAGE,
        )
    return wanted, found[0]
