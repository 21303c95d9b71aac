"""The Service `kubernetes` in namespace `default`, its Endpoints and EndpointSlice: where programs look for their API.

They are objects like any others, so that lists and watches hold them; deleted or changed, they are put back, and what
is as it should be costs no write. A server of which nobody has asked for services stores none of them: a thousand
simulated clusters need neither the writes nor the memory, a restart on another port changes nothing that nobody looks
at, and who asks finds them there.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import Iterable, Iterator
from typing import Any, Final

from steelyard.frozen import frozen
from steelyard.kube import errors, objects, selectors, uids
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.call import Call
from steelyard.kube.server.core import Core, unavailable
from steelyard.kube.server.space.background import Work
from steelyard.kube.store.errors import StoreError
from steelyard.kube.store.record import Change, Record

NAMESPACE: Final = "default"
NAME: Final = "kubernetes"
_MANAGER: Final = "kube-apiserver"
_HTTPS: Final = 443
_SERVICES: Final = Resource("", "v1", "services", "Service")
_ENDPOINTS: Final = Resource("", "v1", "endpoints", "Endpoints")
_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
CONCERNED: Final = frozenset(each.plural for each in (_SERVICES, _ENDPOINTS, _SLICES))
_READS: Final = frozenset(("get", "list", "watch"))


@frozen
class Place:
    """Where the server is reached: by an address and a port, and by the first address of its services' range."""

    address: str
    port: int
    service_address: str


class OwnService(Work):
    def __init__(self, core: Core) -> None:
        super().__init__()
        self._core = core
        self._place: Place | None = None
        self._activation: asyncio.Future[None] | None = None
        self._keys = {core.key(each, NAMESPACE, NAME): each for each in (_SERVICES, _ENDPOINTS, _SLICES)}

    @property
    def is_active(self) -> bool:
        return self._activation is not None and self._activation.done()

    async def publish(self, address: str, port: int) -> None:
        """The server is reached there from now on. What is stored already follows; the rest waits to be asked for."""
        self._place = Place(address, port, str(self._core.service_range[1]))
        if any(self._core.store.head(key) is not None for key in self._keys):
            await self.activate()

    async def prepare(self, call: Call) -> None:
        """Before a request that shows services, or takes an address of theirs: this one is there."""
        if call.plural not in CONCERNED or self._place is None or _selects_others(call):
            return
        if call.namespace in ("", NAMESPACE) or call.verb not in _READS:
            await self.activate()

    async def activate(self) -> None:
        if self._activation is None:
            self._activation = asyncio.ensure_future(self._write_all())
        try:
            await asyncio.shield(self._activation)
        except StoreError as error:
            self._activation = None
            raise unavailable(error) from error

    async def _write_all(self) -> None:
        await asyncio.gather(*(write for key in self._keys if (write := self._put(key)) is not None))

    def load(self, records: Iterable[Record]) -> None:
        if self._activation is not None:
            for key in self._keys:
                self.enqueue(key)

    def observe(self, change: Change) -> None:
        if change.key in self._keys and self._activation is not None:
            self.enqueue(change.key)

    def process(self, item: str) -> None:
        write = self._put(item)
        if write is not None:
            self.write(write, item)

    def _put(self, key: str) -> asyncio.Future[Record] | None:
        """None where everything is as it should be."""
        assert self._place is not None
        resource = self._keys[key]
        wanted = _WANTED[resource.plural](self._place)
        record = self._core.store.head(key)
        if record is None:
            return self._core.put(key, self._new(resource, wanted), expect=0)
        if objects.is_being_deleted(record.object) or _is_fine(resource, record.object, wanted):
            return None
        changed: Object = {**objects.copy(record.object), **_kept(resource, record.object, wanted)}
        if "generation" in changed["metadata"]:
            changed["metadata"]["generation"] = objects.generation(changed) + 1
        return self._core.put(key, changed, expect=record.revision)

    def _new(self, resource: Resource, wanted: Object) -> Object:
        now = self._core.timestamp()
        fields = _FIELDS[resource.plural]
        metadata: Object = {"name": NAME, "namespace": NAMESPACE, "uid": uids.new(), "creationTimestamp": now}
        if resource == _SLICES:
            metadata["generation"] = 1
        labels = _LABELS[resource.plural]
        metadata["labels"] = dict(labels)
        managed: Object = {
            "manager": _MANAGER,
            "operation": "Update",
            "apiVersion": resource.api_version,
            "time": now,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, **{f"f:{label}": {} for label in labels}}},
                **objects.copy(fields),
            },
        }
        metadata["managedFields"] = [managed]
        return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **wanted}


def _selects_others(call: Call) -> bool:
    """Whether these are none of what the request is about, by their labels."""
    selector = call.options.get("labelSelector", "")
    if not selector or call.verb not in ("list", "watch"):
        return False
    try:
        return not selectors.parse_labels(selector).matches(_LABELS[call.plural])
    except errors.ApiError:
        return False


def service_range(networks: str) -> ipaddress.IPv4Network | None:
    """What services get addresses from; None if the networks that a cluster is configured with have no IPv4 one."""
    return next((each for each in _parsed(networks) if isinstance(each, ipaddress.IPv4Network)), None)


def first_addresses(networks: str) -> list[str]:
    """The addresses that this Service has in each of the networks, for the server's certificate."""
    return [str(each[1]) for each in _parsed(networks)]


def _parsed(networks: str) -> Iterator[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """As kubeadm writes them, with commas; what is no network, or has no address to give, is passed over."""
    for each in filter(None, networks.split(",")):
        with contextlib.suppress(ValueError):
            network = ipaddress.ip_network(each.strip(), strict=False)
            if network.num_addresses > 1:
                yield network


def _service(place: Place) -> Object:
    return {
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": _HTTPS, "targetPort": place.port}],
            "clusterIP": place.service_address,
            "clusterIPs": [place.service_address],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    }


def _endpoints(place: Place) -> Object:
    ports = [{"name": "https", "port": place.port, "protocol": "TCP"}]
    return {"subsets": [{"addresses": [{"ip": place.address}], "ports": ports}]}


def _slice(place: Place) -> Object:
    return {
        "addressType": "IPv6" if ":" in place.address else "IPv4",
        "endpoints": [{"addresses": [place.address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "protocol": "TCP", "port": place.port}],
    }


def _is_fine(resource: Resource, existing: Object, wanted: Object) -> bool:
    """Of the Service only the ports are looked after, as upstream does; who changes the rest has a reason."""
    return all(existing.get(key) == value for key, value in _kept(resource, existing, wanted).items())


def _kept(resource: Resource, existing: Object, wanted: Object) -> Object:
    if resource != _SERVICES:
        return wanted
    return {"spec": {**objects.mapping(existing.get("spec")), "ports": wanted["spec"]["ports"]}}


_WANTED: Final = {"services": _service, "endpoints": _endpoints, "endpointslices": _slice}
_LABELS: Final = {
    "services": {"component": "apiserver", "provider": "kubernetes"},
    "endpoints": {"endpointslice.kubernetes.io/skip-mirror": "true"},
    "endpointslices": {"kubernetes.io/service-name": NAME},
}
_PORT_FIELDS: Final[Object] = {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}}
_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "services": {
        "f:spec": {
            "f:clusterIP": {},
            "f:internalTrafficPolicy": {},
            "f:ipFamilyPolicy": {},
            "f:ports": {".": {}, f'k:{{"port":{_HTTPS},"protocol":"TCP"}}': _PORT_FIELDS},
            "f:sessionAffinity": {},
            "f:type": {},
        }
    },
    "endpoints": {"f:subsets": {}},
    "endpointslices": {"f:addressType": {}, "f:endpoints": {}, "f:ports": {}},
}
"""What upstream's server manages of each, as its managedFields say."""
