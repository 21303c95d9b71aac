"""Applying one composed object: server-side, and never over somebody else's object."""

from __future__ import annotations

from typing import Final

from steelyard.kube import errors
from steelyard.kube.client.interface import Client
from steelyard.plan import marks
from steelyard.plan.changes import Change
from steelyard.plan.marks import FIELD_MANAGER

_BEFORE_ANYTHING: Final = "1"
"""The revision of the first object that an API server ever stored, which is none of a claim's."""


async def carry_out(client: Client, change: Change) -> bool:
    """Creates or updates a part as was decided; False where nothing was to be done.

    Raises `errors.AlreadyExists` where an object that was not made for the claim has its name, and `errors.Conflict`
    where an object has it that was not observed.
    """
    if change.action == "refuse":
        raise errors.AlreadyExists("it exists and was not made for this claim; delete it, or choose another name")
    if change.part is None or change.action not in ("create", "update"):
        return False
    signed = marks.signed(change.part.object)
    if change.action == "create":
        # What a cache has not seen may be there all the same. A revision is ignored where there is nothing, and refused
        # where there is an object of another one.
        signed["metadata"]["resourceVersion"] = _BEFORE_ANYTHING
    await client.apply(change.part.resource, signed, field_manager=FIELD_MANAGER)
    return True
