"""Scale (autoscaling/v1): what the scale subresource of any object shows, and how it is put back."""

from __future__ import annotations

from typing import Any, Final, cast

from steelyard.kube import errors, objects, selectors
from steelyard.kube.objects import Object
from steelyard.kube.server.catalogue.registry import Scale, Served

_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def of(served: Served, obj: Object) -> Object:
    places = paths(served)
    metadata = objects.metadata(obj)
    status: Object = {"replicas": objects.at(obj, *places.status_replicas) or 0}
    if places.selector and (selector := objects.at(obj, *places.selector)) is not None:
        status["selector"] = _selector_text(selector)
    replicas = objects.at(obj, *places.spec_replicas)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: metadata[field] for field in _METADATA if field in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def put(served: Served, obj: Object, replicas: Any) -> None:
    """Sets the number of replicas; in place."""
    path = paths(served).spec_replicas
    at = obj
    for step in path[:-1]:
        inner = at.get(step)
        if not isinstance(inner, dict):
            inner = at[step] = {}
        at = cast(Object, inner)
    at[path[-1]] = replicas


def paths(served: Served) -> Scale:
    if served.scale is None:
        raise errors.NotFound("the server could not find the requested resource")
    return served.scale


def _selector_text(selector: Any) -> str:
    """Custom resources keep the selector as text, built-in kinds as a LabelSelector."""
    if isinstance(selector, str):
        return selector
    fields = objects.mapping(selector)
    terms = [selectors.format_labels(objects.mapping(fields.get("matchLabels")))]
    for expression in map(objects.mapping, objects.sequence(fields.get("matchExpressions"))):
        key, values = expression.get("key"), ",".join(map(str, objects.sequence(expression.get("values"))))
        match expression.get("operator"):
            case "In":
                terms.append(f"{key} in ({values})")
            case "NotIn":
                terms.append(f"{key} notin ({values})")
            case "DoesNotExist":
                terms.append(f"!{key}")
            case _:
                terms.append(str(key))
    return ",".join(filter(None, terms))
