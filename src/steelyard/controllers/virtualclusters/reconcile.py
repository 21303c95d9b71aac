"""Keeps the keys of one cluster, its kubeconfig, and its servers at what they are to have.

    authorities, token  ->  the authority is recorded  ->  address  ->  the servers' Secret  ->  kubeconfig

Without the servers' Secret no machine starts, so whatever line the process dies at, no server runs with keys that are
not recorded. Each step looks at what is there; an idle cluster causes no write.
"""

from __future__ import annotations

import base64
import contextlib
import secrets
from typing import Final

from steelyard.api import k3s, resources
from steelyard.api.clusterapi import wellknown
from steelyard.api.k3s import API_PORT, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from steelyard.compose import names
from steelyard.controllers.lifecycle import certificates, kubeconfig, spelling
from steelyard.controllers.virtualclusters import keys, restarting
from steelyard.frozen import frozen
from steelyard.kube import errors, objects, pki
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair
from steelyard.kube.resources import NAMESPACES, SECRETS, SERVICES, Resource
from steelyard.kube.runtime import logs
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key

_CLAIM_KIND: Final = resources.virtual_clusters("").kind
_RETRY: Final = 60.0
_LOOK_AGAIN_WHILE_RESTARTING: Final = 15.0
_TOKEN_BYTES: Final = 32
_TLS_ON_SERVER: Final = "/var/lib/rancher/k3s/server/tls"
_TOKEN_ON_SERVER: Final = "/etc/rancher/k3s/token"  # noqa: S105 (a path)
_VALUE: Final = "value"

_log = logs.get(__name__)


@frozen
class Cluster:
    name: str
    home: Object
    """Its namespace, which owns what is made here: the two begin and end together."""

    @property
    def namespace(self) -> str:
        return objects.name(self.home)

    @property
    def authority(self) -> str:
        """What servers may run with; empty while none can have started."""
        return objects.annotations(self.home).get(k3s.AUTHORITY, "")

    def as_object(self) -> Object:
        """What is asked of a Cluster where names of Secrets are made: its name and namespace."""
        return {"metadata": {"name": self.name, "namespace": self.namespace}}


class KeyReconciler:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def reconcile(self, key: Key) -> Result:
        """`key` is that of the cluster's namespace."""
        home = await self._find(NAMESPACES, key.name)
        name = cluster_of(home)
        if home is None or not name or objects.is_being_deleted(home):
            return Result()
        cluster = Cluster(name, home)
        try:
            renewal = await self._keep(cluster)
        except certificates.Missing as missing:
            await self._annotate(cluster, k3s.PROBLEM, str(missing))
            return Result(_RETRY)
        await self._annotate(cluster, k3s.PROBLEM, None)
        is_restarting = await self._restart(cluster)
        return Result(_LOOK_AGAIN_WHILE_RESTARTING if is_restarting else renewal)

    async def _keep(self, cluster: Cluster) -> float | None:
        """Seconds after which the kubeconfig must be renewed. Raises `certificates.Missing`."""
        served = await self._find(SECRETS, k3s.keys_secret(cluster.name), cluster.namespace)
        if served is not None and not objects.is_owned_by(served, cluster.home):
            raise certificates.Missing(
                f"Secret {objects.qualified_name(served)} is not this cluster's; delete it, and it is made anew"
            )
        # The token first: where the authority is recorded, both have been there.
        token, pairs = await self._token(cluster, served), await self._authorities(cluster, served)
        service = await self._find(SERVICES, k3s.api_service(cluster.name), cluster.namespace)
        address, inside = k3s.address(service), str(objects.at(service, "spec", "clusterIP") or "")
        if not address or not inside:
            return None
        await self._serve(cluster, served, keys.files(pairs, token, address=address, service=inside))
        now = self._clock.now()
        host = f"[{address}]" if ":" in address else address
        due = await kubeconfig.ensure(
            self._client, cluster.as_object(), owner=cluster.home, endpoint=f"{host}:{API_PORT}", now=now
        )
        return (due - now).total_seconds() if due is not None else None

    async def _authorities(self, cluster: Cluster, served: Object | None) -> dict[str, KeyPair]:
        """All of them, by purpose, made where servers cannot have any yet."""
        for purpose in certificates.PURPOSES:
            name = spelling.secret_name(cluster.name, purpose)
            if await self._find(SECRETS, name, cluster.namespace) is not None:
                continue
            kept = keys.pair_of(served, purpose)
            if kept is not None:
                _log.info("restored", secret=f"{cluster.namespace}/{name}")
                await self._create(certificates.as_secret(cluster.namespace, cluster.name, purpose, kept, cluster.home))
            elif cluster.authority:
                raise certificates.Lost(_what_to_do(cluster, name, "tls.crt and tls.key", _TLS_ON_SERVER))
        stand_in, now = cluster.as_object(), self._clock.now()
        await certificates.ensure(
            self._client, stand_in, owner=cluster.home, cluster_configuration={}, data_secrets=(), now=now
        )
        pairs = {each: await certificates.read(self._client, stand_in, each) for each in certificates.PURPOSES}
        pairs[certificates.CLUSTER_CA] = await certificates.read_authority(self._client, stand_in)
        found = pki.key_hash(pairs[certificates.CLUSTER_CA].certificate)
        if cluster.authority and cluster.authority != found:
            name = spelling.secret_name(cluster.name, certificates.CLUSTER_CA)
            raise certificates.Missing(
                f"Secret {cluster.namespace}/{name} holds another authority than the servers were made with; put back "
                f"the one that was there, or delete the Secret, and it is made from the copy in "
                f"{k3s.keys_secret(cluster.name)}"
            )
        await self._annotate(cluster, k3s.AUTHORITY, found)
        return pairs

    async def _token(self, cluster: Cluster, served: Object | None) -> str:
        name = spelling.secret_name(cluster.name, keys.TOKEN)
        found = await self._find(SECRETS, name, cluster.namespace)
        if found is None:
            kept = keys.content_of(served, keys.TOKEN).decode()
            if cluster.authority and not kept:
                raise certificates.Lost(_what_to_do(cluster, name, _VALUE, _TOKEN_ON_SERVER))
            token = kept or secrets.token_hex(_TOKEN_BYTES)
            found = await self._create(_secret(cluster, name, {_VALUE: base64.b64encode(token.encode()).decode()}))
        token = keys.content_of(found, _VALUE).decode()
        if not token:
            raise certificates.Missing(f"Secret {cluster.namespace}/{name} has no {_VALUE}; delete it")
        return token

    async def _serve(self, cluster: Cluster, served: Object | None, files: dict[str, str]) -> None:
        """The Secret that machines see as a disk; of one that is there, only what differs is written."""
        name = k3s.keys_secret(cluster.name)
        if served is None:
            await self._create(_secret(cluster, name, files))
        elif objects.mapping(served.get("data")) != files:
            await self._client.patch(SECRETS, name, {"data": files}, cluster.namespace)

    async def _restart(self, cluster: Cluster) -> bool:
        """One server at most. Returns whether any waits for it, or for another."""
        selector = f"{wellknown.CLUSTER_NAME_LABEL}={cluster.name}"
        try:
            page = await self._client.list(VIRTUAL_MACHINES, cluster.namespace, label_selector=selector)
        except errors.NotFound:
            return False
        if not any(map(k3s.needs_restart, page.items)):
            return False
        running = (await self._client.list(VIRTUAL_MACHINE_INSTANCES, cluster.namespace)).items
        instances = {objects.name(each): each for each in running}
        name = restarting.next_of(page.items, instances)
        if not name:
            return True
        _log.info("restarting", server=f"{cluster.namespace}/{name}")
        # A machine that is to run always gets a new instance.
        with contextlib.suppress(errors.NotFound):
            await self._client.delete(
                VIRTUAL_MACHINE_INSTANCES, name, cluster.namespace, uid=objects.uid(instances[name])
            )
        return True

    async def _annotate(self, cluster: Cluster, annotation: str, value: str | None) -> None:
        if objects.annotations(cluster.home).get(annotation) != value:
            change: Object = {"metadata": {"annotations": {annotation: value}}}
            await self._client.patch(NAMESPACES, cluster.namespace, change)

    async def _create(self, secret: Object) -> Object:
        """The one that is there, where somebody was faster."""
        try:
            return await self._client.create(SECRETS, secret)
        except errors.AlreadyExists:
            return await self._client.get(SECRETS, objects.name(secret), objects.namespace(secret))

    async def _find(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        try:
            return await self._client.get(resource, name, namespace)
        except errors.NotFound:
            return None


def cluster_of(home: Object | None) -> str:
    """The name of the cluster that a namespace was made for; empty for any other namespace."""
    if home is None or objects.labels(home).get(names.CLAIM_KIND) != _CLAIM_KIND:
        return ""
    return objects.labels(home).get(wellknown.CLUSTER_NAME_LABEL, "")


def _secret(cluster: Cluster, name: str, data: dict[str, str]) -> Object:
    owner = objects.owner_reference(cluster.home, controller=True, block_owner_deletion=True)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": cluster.namespace,
            "labels": {wellknown.CLUSTER_NAME_LABEL: cluster.name},
            "ownerReferences": [owner],
        },
        "type": wellknown.CLUSTER_SECRET_TYPE,
        "data": data,
    }


def _what_to_do(cluster: Cluster, secret: str, what: str, place: str) -> str:
    return (
        f"Secrets {secret} and {k3s.keys_secret(cluster.name)} in namespace {cluster.namespace} were deleted while "
        f"servers run with what was in them; new ones would cut them off, so none is made. Create {secret} again with "
        f"{what} as before: from a backup, or from {place} on a server"
    )
