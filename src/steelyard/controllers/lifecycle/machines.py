"""Making a machine: the Machine first, then the two objects it refers to, all three under one name.

The Machine is the record of intent: once it is written, whoever owns it (a MachineSet or a control plane) completes
it, now or after a restart. What it refers to is owned by the Machine from the first moment. So a crash after any one
write neither leaks an object nor makes a second one, and deleting the Machine removes whatever of it exists.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

from steelyard.controllers.lifecycle.contract import Externals, Reference
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object

Make = Callable[[Object], Awaitable[Object]]
"""Given the Machine, the object to create for it."""

INFRASTRUCTURE = ("spec", "infrastructureRef")
BOOTSTRAP = ("spec", "bootstrap", "configRef")


def needs_completion(machine: Object) -> bool:
    """Whether its parts may still be missing. What once existed and was taken away is not made again."""
    is_provisioned = objects.at(machine, "status", "initialization", "infrastructureProvisioned")
    return not is_provisioned and not objects.is_being_deleted(machine)


async def complete(
    client: Client, externals: Externals, machine: Object, *, infrastructure: Make, bootstrap: Make
) -> None:
    """Creates what the Machine refers to and does not exist. Nothing is written for a complete Machine."""
    await _ensure(client, externals, machine, Reference.of(objects.at(machine, *BOOTSTRAP)), bootstrap)
    await _ensure(client, externals, machine, Reference.of(objects.at(machine, *INFRASTRUCTURE)), infrastructure)


async def _ensure(
    client: Client, externals: Externals, machine: Object, reference: Reference | None, make: Make
) -> None:
    if reference is None or await externals.find(reference, objects.namespace(machine)) is not None:
        return
    obj = await make(machine)
    resource = await externals.resource(reference.group, reference.kind)
    metadata = {
        **objects.metadata(obj),
        "ownerReferences": [objects.owner_reference(machine, controller=True, block_owner_deletion=True)],
    }
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(resource, {**obj, "metadata": metadata})
