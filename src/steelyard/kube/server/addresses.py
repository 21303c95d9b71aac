"""Which addresses and ports the services of a server hold."""

from __future__ import annotations

import functools

from steelyard.kube import objects
from steelyard.kube.resources import Resource
from steelyard.kube.server.core import Core

_SERVICES = Resource("", "v1", "services", "Service")


class Services:
    """What is taken by services other than the one with the given UID, also by those that are only being written: of
    two that ask at the same time one must not get it. Looked up once, when first asked.
    """

    def __init__(self, core: Core, asking: str) -> None:
        self._core = core
        self._asking = asking

    def address(self, address: str) -> bool:
        return address in self._held[0]

    def port(self, port: int) -> bool:
        return port in self._held[1]

    @functools.cached_property
    def _held(self) -> tuple[frozenset[str], frozenset[int]]:
        addresses: set[str] = set()
        ports: set[int] = set()
        for record in self._core.store.heads(self._core.prefix(_SERVICES)):
            if objects.uid(record.object) == self._asking:
                continue
            spec = objects.mapping(record.object.get("spec"))
            addresses.update(map(str, objects.sequence(spec.get("clusterIPs"))))
            for port in map(objects.mapping, objects.sequence(spec.get("ports"))):
                if port.get("nodePort"):
                    ports.add(int(port["nodePort"]))
        return frozenset(addresses), frozenset(ports)
