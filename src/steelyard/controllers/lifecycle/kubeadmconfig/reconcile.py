"""Makes a machine's bootstrap data, once: `kubeadm init` for a cluster's first machine, `kubeadm join` for the rest.

Order of writes, each safe to repeat: the init lock or the token in the config's spec; the token's Secret in the
workload cluster; the data Secret; the config's status. While the machine has not joined, its token is kept alive;
after that the config is never touched again.
"""

from __future__ import annotations

import base64
from typing import cast

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import certificates, contract, pausing
from steelyard.controllers.lifecycle.certificates import File
from steelyard.controllers.lifecycle.kubeadmconfig import cloudinit, jointokens, kubeadm, lock, references, status
from steelyard.controllers.lifecycle.view import View, is_control_plane_machine
from steelyard.controllers.lifecycle.workload import Workloads
from steelyard.kube import errors, objects, pki, resources
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.drafts import Draft
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.verdicts import Verdict

_LOCK_RETRY = 30.0
_CONNECTION_RETRY = 5.0
_REFERENCE_RETRY = 15.0


class Unprepared(Exception):
    """The bootstrap data cannot be made yet; the message says what is missing."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class KubeadmConfigReconciler:
    def __init__(self, client: Client, view: View, workloads: Workloads, clock: Clock) -> None:
        self._client = client
        self._view = view
        self._workloads = workloads
        self._clock = clock

    async def reconcile(self, key: Key) -> Result:
        config = self._view.configs.get(*key)
        if config is None or objects.is_being_deleted(config):
            return Result()
        machine = self._view.owner_of(config, capi.MACHINES)
        cluster = self._view.cluster_of(machine) if machine is not None else None
        if machine is None or cluster is None or objects.is_being_deleted(machine):
            return Result()
        draft = Draft(self._client, capi.KUBEADM_CONFIGS, config)
        if await pausing.hold(draft, cluster, self._clock):
            return Result()
        retry_after: float | None = None
        try:
            found = status.done()
            retry_after = await self._prepare(draft, machine, cluster)
        except Unprepared as error:
            found = status.waiting(str(error))
            retry_after = error.retry_after
        except references.NotThere as error:
            found = status.waiting(str(error))
            retry_after = _REFERENCE_RETRY
        except certificates.Missing as error:
            found = status.certificates_missing(str(error))
            retry_after = _REFERENCE_RETRY
        except (kubeadm.UnsupportedVersion, jointokens.BadToken) as error:
            found = status.waiting(str(error))
        await self._save(draft, found)
        return Result(retry_after)

    async def _save(self, draft: Draft, found: list[Verdict]) -> None:
        verdicts.record(draft.object, [*status.with_ready(found), pausing.NOT_PAUSED], self._clock.now())
        await draft.save()

    async def _prepare(self, draft: Draft, machine: Object, cluster: Object) -> float | None:
        """Brings the config to where its data exists. Returns when to look at it again, in seconds."""
        if not objects.at(cluster, "status", "initialization", "infrastructureProvisioned"):
            raise Unprepared("Waiting for Cluster status.initialization.infrastructureProvisioned to be true")
        is_initialized = bool(objects.at(cluster, "status", "initialization", "controlPlaneInitialized"))
        has_joined = bool(objects.at(machine, "status", "nodeRef", "name"))
        is_lost = not has_joined and await self._data_is_lost(draft.object, machine)
        if objects.at(draft.object, "status", "initialization", "dataSecretCreated") and not is_lost:
            if is_initialized and is_control_plane_machine(machine):
                await lock.release(self._client, self._view.locks, cluster, machine)
            return None if has_joined else await self._renew_token(draft, cluster)
        given = objects.at(machine, "spec", "bootstrap", "dataSecretName")
        if given and not is_lost:
            self._mark_created(draft, str(given))
            return None
        if draft.spec.get("format") not in (None, "", "cloud-config"):
            raise Unprepared(f"spec.format {draft.spec['format']} is not supported: use cloud-config")
        if not is_initialized:
            if not is_control_plane_machine(machine):
                raise Unprepared("Waiting for Cluster control plane to be initialized")
            return await self._prepare_init(draft, machine, cluster)
        return await self._prepare_join(draft, machine, cluster)

    async def _data_is_lost(self, config: Object, machine: Object) -> bool:
        """Whether the machine was given data made here that is not there any more. What a user gave is the user's."""
        name = objects.name(config)
        if objects.at(machine, "spec", "bootstrap", "dataSecretName") != name:
            return False
        try:
            await self._client.get(resources.SECRETS, name, objects.namespace(config))
        except errors.NotFound:
            return True
        return False

    async def _prepare_init(self, draft: Draft, machine: Object, cluster: Object) -> float | None:
        if not await lock.acquire(self._client, self._view.locks, cluster, machine):
            raise Unprepared("Waiting for another machine to initialize the control plane", _LOCK_RETRY)
        configuration = objects.mapping(draft.spec.get("clusterConfiguration"))
        files = [
            *await certificates.control_plane_files(self._client, cluster, configuration),
            *await references.files(self._client, draft.object),
        ]
        documents = kubeadm.init_documents(
            draft.spec,
            cluster,
            version=_version(machine),
            endpoint=contract.endpoint_text(cluster),
        )
        spec = await references.spec_with_passwords(self._client, draft.object)
        await self._store(draft, cluster, cloudinit.init(spec, files, documents))
        return None

    async def _prepare_join(self, draft: Draft, machine: Object, cluster: Object) -> float | None:
        joins_control_plane = is_control_plane_machine(machine)
        join = cast(Object, draft.spec.setdefault("joinConfiguration", {}))
        if joins_control_plane:
            join.setdefault("controlPlane", {})
        elif "controlPlane" in join:
            raise Unprepared("spec.joinConfiguration.controlPlane is set, but the machine is a worker: remove it")
        discovery = cast(Object, join.setdefault("discovery", {}))
        discovers_by_token = not discovery.get("file")
        if discovers_by_token:
            await self._discover_by_token(draft, cluster, discovery)
        files: list[File] = []
        if joins_control_plane:
            configuration = objects.mapping(draft.spec.get("clusterConfiguration"))
            files.extend(await certificates.control_plane_files(self._client, cluster, configuration))
        files.extend(await references.files(self._client, draft.object))
        kubeconfig = await references.discovery_file(self._client, draft.object, cluster)
        files.extend([kubeconfig] if kubeconfig is not None else [])
        written = join if joins_control_plane else _with_uninitialized_taint(join)
        document = kubeadm.join_document(written, version=_version(machine))
        spec = await references.spec_with_passwords(self._client, draft.object)
        await self._store(draft, cluster, cloudinit.join(spec, files, document))
        return jointokens.CHECK_INTERVAL.total_seconds() if discovers_by_token else None

    async def _discover_by_token(self, draft: Draft, cluster: Object, discovery: Object) -> None:
        by_token = cast(Object, discovery.setdefault("bootstrapToken", {}))
        if not by_token.get("caCertHashes"):
            authority = await certificates.read(self._client, cluster, certificates.CLUSTER_CA)
            by_token["caCertHashes"] = [pki.key_hash(authority.certificate)]
        if not by_token.get("apiServerEndpoint"):
            endpoint = contract.endpoint_text(cluster)
            if not endpoint:
                raise Unprepared("Waiting for Cluster spec.controlPlaneEndpoint to be set")
            by_token["apiServerEndpoint"] = endpoint
        if not by_token.get("token"):
            by_token["token"] = jointokens.new()
        token = str(by_token["token"])
        await draft.save_object()
        await self._ensure_token(cluster, token)

    async def _renew_token(self, draft: Draft, cluster: Object) -> float | None:
        token = objects.at(draft.spec, "joinConfiguration", "discovery", "bootstrapToken", "token")
        if not token:
            return None
        try:
            await self._ensure_token(cluster, str(token))
        except Unprepared as error:
            return error.retry_after
        return jointokens.CHECK_INTERVAL.total_seconds()

    async def _ensure_token(self, cluster: Object, token: str) -> None:
        connection = await self._workloads.connection(Key.of(cluster))
        if connection is None:
            problem = self._workloads.problem(Key.of(cluster))
            raise Unprepared(problem or "Waiting for the cluster's kubeconfig", _CONNECTION_RETRY)
        try:
            await jointokens.ensure(connection.client, token, self._clock.now())
        except errors.ServiceUnavailable as error:
            raise Unprepared(f"The cluster's API cannot be reached: {error.message}", _CONNECTION_RETRY) from error

    async def _store(self, draft: Draft, cluster: Object, data: str) -> None:
        config = draft.object
        secret: Object = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": objects.name(config),
                "namespace": objects.namespace(config),
                "labels": {wellknown.CLUSTER_NAME_LABEL: objects.name(cluster)},
                "ownerReferences": [objects.owner_reference(config, controller=True)],
            },
            "type": wellknown.CLUSTER_SECRET_TYPE,
            "data": {
                "value": base64.b64encode(data.encode()).decode(),
                "format": base64.b64encode(b"cloud-config").decode(),
            },
        }
        try:
            await self._client.create(resources.SECRETS, secret)
        except errors.AlreadyExists:
            existing = await self._client.get(resources.SECRETS, objects.name(config), objects.namespace(config))
            if not objects.is_owned_by(existing, config):
                raise
        self._mark_created(draft, objects.name(config))

    @staticmethod
    def _mark_created(draft: Draft, secret_name: str) -> None:
        draft.status["dataSecretName"] = secret_name
        draft.set_initialized("dataSecretCreated")


def _version(machine: Object) -> str:
    return str(objects.at(machine, "spec", "version") or "")


def _with_uninitialized_taint(join: Object) -> Object:
    """Workers start tainted; the taint goes once the Node has the machine's labels."""
    registration = objects.mapping(join.get("nodeRegistration"))
    taints = objects.sequence(registration.get("taints"))
    if any(objects.mapping(taint).get("key") == wellknown.UNINITIALIZED_TAINT["key"] for taint in taints):
        return join
    return {**join, "nodeRegistration": {**registration, "taints": [*taints, dict(wellknown.UNINITIALIZED_TAINT)]}}
