"""Which addresses and ports the services of a server hold."""

from __future__ import annotations

import functools
from collections.abc import Callable

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.core import Core
from steelyard.kube.store.record import Record

_SERVICES = Resource("", "v1", "services", "Service")


class Services:
    """What is taken by services other than the one with the given UID, also by those that are only being written: of
    two that ask at the same time one must not get it.

    Services are searched as they are stored, and only those that mention what is asked for are read: a few ask, and
    there may be thousands.
    """

    def __init__(self, core: Core, asking: str) -> None:
        self._core = core
        self._asking = asking
        self.range = core.service_range

    def address(self, address: str) -> bool:
        return self._is_held(f'"{address}"', lambda spec: address in objects.sequence(spec.get("clusterIPs")))

    def port(self, port: int) -> bool:
        return self._is_held(f'odePort":{port}', lambda spec: port in _ports(spec))

    def _is_held(self, mention: str, holds: Callable[[Object], bool]) -> bool:
        needle = mention.encode()
        return any(
            needle in record.value
            and objects.uid(record.object) != self._asking
            and holds(objects.mapping(record.object.get("spec")))
            for record in self._others
        )

    @functools.cached_property
    def _others(self) -> list[Record]:
        return self._core.store.heads(self._core.prefix(_SERVICES))


def _ports(spec: Object) -> list[object]:
    ports = map(objects.mapping, objects.sequence(spec.get("ports")))
    return [spec.get("healthCheckNodePort"), *(port.get("nodePort") for port in ports)]
