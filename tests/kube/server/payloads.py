"""Bodies as they come over the network, read the way a verb reads them."""

from __future__ import annotations

from typing import Any

from steelyard.kube.server.bodies import bodies
from steelyard.kube.server.call import Call, PatchType, Payload, User, Verb


def read(verb: Verb, content_type: str, data: bytes) -> tuple[Any, PatchType]:
    """The decoded body, and for a patch what kind of patch it is."""
    call = Call(verb, "", "v1", "pods", User("jane"), payload=Payload(content_type, data))
    match verb:
        case "patch":
            bodies.settle_patch_type(call, mergeable=True)
            bodies.read_patch(call)
        case "delete":
            bodies.read_delete_options(call)
        case _:
            bodies.read_object(call, "Pod")
    return call.body, call.patch_type
