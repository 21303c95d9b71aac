"""SimulatedCluster: reserves the endpoint of the cluster's API, and erases everything of the cluster when it goes.

The port is written into the object before anything listens on it, so that a restart serves the same address again;
`recall` keeps all of these before a new one is given out. An object that vanished with its finalizer taken off by force
is noticed as well: what it stood for is erased. Not so one that was paused: it has been moved to another API, by
`steelyard move` or `clusterctl move`, and its machines go on.
"""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.api.clusterapi.resources import CLUSTERS
from steelyard.api.resources import SIMULATED_CLUSTERS
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object, Uid
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import finalizers, patching
from steelyard.kube.runtime.cached import CachedClient
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key
from steelyard.kube.server.hosting import Hosting, PortTaken
from steelyard.providers.simulated import identity
from steelyard.providers.simulated.ensembles import Ensembles
from steelyard.providers.toolkit import clusterapi, reporting

FINALIZER = "simulatedcluster.infrastructure.cluster.x-k8s.io"
_PORT_RETRY_SECONDS = 5.0
_ELSEWHERE = (
    "its machines are in the data directory of the provider that made them, not in that of this one: start this "
    "platform with --without simulated, and beside it, where they are, steelyard controllers --with simulated "
    "--kubeconfig FILE --data-dir DIR (docs/moving.md)"
)


async def recall(client: Client, hosting: Hosting) -> None:
    """Keeps the ports that clusters have. To be called before any controller of the provider runs.

    Of two clusters that name the same port it is the one's that was provisioned, or made, first. What the Cluster says
    counts over what its infrastructure says: clients know the address from there, and it is never changed.
    """
    clusters = await _all(client, CLUSTERS)
    endpoints: dict[str, int] = {objects.uid(each): clusterapi.endpoint_port(each) for each in clusters}
    for infrastructure in sorted(await _all(client, SIMULATED_CLUSTERS), key=_age):
        owners = [str(each.get("uid")) for each in objects.owner_references(infrastructure)]
        port = next((endpoints[uid] for uid in owners if endpoints.get(uid)), clusterapi.endpoint_port(infrastructure))
        if port:
            hosting.promise(identity.of_cluster(infrastructure), port)


async def _all(client: Client, resource: Resource) -> Sequence[Object]:
    """None where nothing serves the kind."""
    try:
        return (await client.list(resource)).items
    except errors.NotFound:
        return ()


def _age(infrastructure: Object) -> tuple[bool, str, str]:
    is_provisioned = bool(objects.at(infrastructure, "status", "initialization", "provisioned"))
    created = str(objects.metadata(infrastructure).get("creationTimestamp") or "")
    return not is_provisioned, created, objects.uid(infrastructure)


@frozen
class _Known:
    """What was last seen under a name."""

    uid: Uid
    identity: str
    is_spared: bool
    """Whether nothing is erased when it vanishes: it was paused, or names what is another's."""


class SimulatedClusterReconciler:
    def __init__(self, client: CachedClient, hosting: Hosting, ensembles: Ensembles, clock: Clock) -> None:
        self._client = client
        self._hosting = hosting
        self._ensembles = ensembles
        self._clock = clock
        self._known: dict[Key, _Known] = {}

    async def reconcile(self, key: Key) -> Result:
        infrastructure = await self._find(key)
        if infrastructure is None:
            await self._forget_former(key, None)
            return Result()
        cluster = await clusterapi.owner_cluster(self._client, infrastructure)
        is_paused = cluster is not None and clusterapi.is_paused(cluster, infrastructure)
        is_anothers = await identity.is_anothers(self._client, infrastructure)
        seen = _Known(objects.uid(infrastructure), identity.of_cluster(infrastructure), is_paused or is_anothers)
        await self._forget_former(key, seen)
        if is_paused:
            return Result()
        if objects.is_being_deleted(infrastructure):
            return await self._delete(infrastructure, is_anothers=is_anothers)
        if cluster is None:
            return Result()
        if is_anothers:
            text = f"the annotation {identity.ANNOTATION} names another cluster's identity; take it off"
            await self._report(infrastructure, provisioned=False, reason="IdentityTaken", message=text)
            return Result(requeue_after=_PORT_RETRY_SECONDS)
        if identity.is_elsewhere(infrastructure, self._hosting):
            await self._report(infrastructure, provisioned=False, reason="MachinesElsewhere", message=_ELSEWHERE)
            return Result()
        try:
            name = identity.of_cluster(infrastructure)
            port = await self._hosting.reserve(name, clusterapi.endpoint_port(infrastructure))
        except PortTaken as error:
            await self._report(infrastructure, provisioned=False, reason="PortTaken", message=str(error))
            return Result(requeue_after=_PORT_RETRY_SECONDS)
        infrastructure = await self._record_endpoint(infrastructure, port)
        await self._report(infrastructure, provisioned=True, reason="Provisioned", message="")
        return Result()

    async def _find(self, key: Key) -> Object | None:
        try:
            return await self._client.get(SIMULATED_CLUSTERS, key.name, key.namespace)
        except errors.NotFound:
            return None

    async def _forget_former(self, key: Key, seen: _Known | None) -> None:
        """Erases what another object under this name stood for, unless it goes on: with this one, or elsewhere."""
        former = self._known.get(key)
        goes_on = seen is not None and former is not None and former.identity == seen.identity
        is_same = seen is not None and former is not None and former.uid == seen.uid
        if former is not None and not (is_same or goes_on or former.is_spared):
            await self._ensembles.erase(former.identity)
            await self._hosting.erase(former.identity)
        self._known.pop(key, None)
        if seen is not None:
            self._known[key] = seen

    async def _record_endpoint(self, infrastructure: Object, port: int) -> Object:
        wanted = objects.copy(infrastructure)
        if not finalizers.has(wanted, FINALIZER):
            wanted["metadata"]["finalizers"] = [*objects.finalizers(wanted), FINALIZER]
        recorded = {identity.ANNOTATION: identity.of_cluster(infrastructure)}
        wanted["metadata"]["annotations"] = {**objects.annotations(wanted), **recorded}
        spec: Object = {**objects.mapping(wanted.get("spec"))}
        spec["controlPlaneEndpoint"] = {"host": self._hosting.advertised_host, "port": port}
        wanted["spec"] = spec
        return await patching.patch(self._client, SIMULATED_CLUSTERS, infrastructure, wanted)

    async def _report(self, infrastructure: Object, *, provisioned: bool, reason: str, message: str) -> None:
        await reporting.report(
            self._client,
            SIMULATED_CLUSTERS,
            infrastructure,
            provisioned=provisioned,
            ready=provisioned,
            reason=reason,
            message=message,
            clock=self._clock,
        )

    async def _delete(self, infrastructure: Object, *, is_anothers: bool) -> Result:
        """Everything inside the cluster goes before the object that remembers it does."""
        if not is_anothers:
            await self._ensembles.erase(identity.of_cluster(infrastructure))
            await self._hosting.erase(identity.of_cluster(infrastructure))
        await finalizers.remove(self._client, SIMULATED_CLUSTERS, infrastructure, FINALIZER)
        return Result()
