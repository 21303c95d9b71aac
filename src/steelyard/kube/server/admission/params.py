"""The objects that a policy takes its parameters from, as its bindings point to them."""

from __future__ import annotations

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import split_api_version
from steelyard.kube.server.catalogue.policies import ParamReference
from steelyard.kube.server.catalogue.registry import Registry, Served
from steelyard.kube.server.core import Core, shown, shown_all, view


class Unknown(Exception):
    """What keeps the parameters from being found."""


def resource(registry: Registry, kind: tuple[str, str] | None) -> Served | None:
    """Raises Unknown for a kind that is not served."""
    if kind is None:
        return None
    api_version, name = kind
    group, version = split_api_version(api_version)
    known = registry.of_kind(group, name)
    served = registry.find(group, version, known.resource.plural) if known is not None else None
    if served is None:
        raise Unknown(f"failed to find resource referenced by paramKind: '{group}/{version}, Kind={name}'")
    return served


async def collect(
    core: Core, served: Served | None, reference: ParamReference | None, namespace: str
) -> list[Object | None]:
    """Each object is to be judged with; None stands for no parameters at all. Raises Unknown."""
    if served is None or reference is None:
        return [None]
    if served.resource.namespaced:
        namespace = reference.namespace or namespace
        if not namespace:
            raise Unknown("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
    elif reference.namespace:
        raise Unknown("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    else:
        namespace = ""
    found: list[Object | None] = []
    if reference.selector is None:
        record = core.store.get(core.key(served.resource, namespace, reference.name))
        if record is not None:
            found.append(view(await shown(core, served, record), served))
    else:
        records = [
            record
            for record in core.store.scan(core.prefix(served.resource, namespace))
            if reference.selector.matches(objects.labels(record.object))
        ]
        found += [view(record, served) for record in await shown_all(core, served, records)]
    if not found and reference.must_exist:
        raise Unknown("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found
