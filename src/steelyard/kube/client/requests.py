"""What both transports ask for in the same words: query parameters and bodies as Kubernetes names them."""

from __future__ import annotations

from steelyard.kube.client.interface import Propagation
from steelyard.kube.objects import Object


def selected(label_selector: str, field_selector: str) -> dict[str, str]:
    query: dict[str, str] = {}
    if label_selector:
        query["labelSelector"] = label_selector
    if field_selector:
        query["fieldSelector"] = field_selector
    return query


def delete_options(propagation: Propagation | None, uid: str, resource_version: str) -> Object | None:
    """The body of a delete; none where nothing is asked for."""
    options: Object = {}
    if propagation:
        options["propagationPolicy"] = propagation
    preconditions = {key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
    if preconditions:
        options["preconditions"] = preconditions
    return {"kind": "DeleteOptions", "apiVersion": "v1", **options} if options else None
