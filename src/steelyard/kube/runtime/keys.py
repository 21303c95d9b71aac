"""The identity that work queues carry: which object to reconcile, never what has happened to it."""

from __future__ import annotations

from typing import NamedTuple

from steelyard.kube import objects
from steelyard.kube.objects import Object


class Key(NamedTuple):
    namespace: str
    name: str

    @classmethod
    def of(cls, obj: Object) -> Key:
        metadata = objects.metadata(obj)
        return cls(metadata.get("namespace") or "", metadata.get("name") or "")

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
