"""What KVMMachines are found by."""

from __future__ import annotations

from typing import Final

from steelyard.kube import objects
from steelyard.kube.objects import Object

BY_PROVIDER_ID: Final = "provider-id"


def provider_ids(infrastructure: Object) -> list[str]:
    known = objects.at(infrastructure, "spec", "providerID")
    return [str(known)] if known else []
