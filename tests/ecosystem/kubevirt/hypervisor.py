"""Plays KubeVirt, CDI and the load balancer of the management cluster: an address for each Service that wants one, and
for each VirtualMachine its disks, its running instance, and a guest that answers.

Machines have addresses in 127.77.0.0/16, which the provider can reach and nobody else can.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
from pathlib import Path
from typing import Final

from steelyard.kube import errors, objects
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from tests.ecosystem.kubevirt import workload
from tests.ecosystem.kubevirt.guest import BOOTSTRAPPED, CloudInit, Guest

MACHINES: Final = Resource("kubevirt.io", "v1", "virtualmachines", "VirtualMachine")
INSTANCES: Final = Resource("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance")
DISKS: Final = Resource("cdi.kubevirt.io", "v1beta1", "datavolumes", "DataVolume")
SERVICES: Final = Resource("", "v1", "services", "Service")
ENDPOINT: Final = "127.77.0.1"
FIRST_ADDRESS: Final = "127.77.1.1"
_PAUSE: Final = 0.3


class Hypervisor:
    def __init__(self, client: Client, folder: Path, version: str) -> None:
        """`version` is what kubelets in the guests report."""
        self.guests: dict[str, Guest] = {}
        self.may_bootstrap = asyncio.Event()
        """Until then machines run, but what their cloud-init data says has not been done."""
        self.workload: HttpClient | None = None
        self.joined: dict[str, str] = {}
        """By machine: whom the cluster's API took it for."""
        self._client = client
        self._folder = folder
        self._version = version
        self._stack = contextlib.AsyncExitStack()
        self._addresses = (f"127.77.1.{number}" for number in itertools.count(1))

    async def run(self) -> None:
        """Until it is cancelled."""
        async with self._stack, asyncio.TaskGroup() as bootstrapping:
            try:
                while True:
                    await self._balance()
                    await self._boot(bootstrapping)
                    await asyncio.sleep(_PAUSE)
            finally:
                for guest in self.guests.values():
                    await guest.stop()

    async def _balance(self) -> None:
        for service in (await self._client.list(SERVICES)).items:
            has_address = bool(objects.at(service, "status", "loadBalancer", "ingress"))
            if objects.at(service, "spec", "type") == "LoadBalancer" and not has_address:
                status = {"status": {"loadBalancer": {"ingress": [{"ip": ENDPOINT}]}}}
                name, namespace = objects.name(service), objects.namespace(service)
                await self._client.patch(SERVICES, name, status, namespace, subresource="status")

    async def _boot(self, bootstrapping: asyncio.TaskGroup) -> None:
        machines = (await self._client.list(MACHINES)).items
        there = {objects.name(each) for each in machines}
        for gone in [name for name in self.guests if name not in there]:
            await self.guests.pop(gone).stop()
        for machine in machines:
            if objects.name(machine) not in self.guests and not objects.is_being_deleted(machine):
                guest = await self._start(machine)
                self.guests[guest.name] = guest
                bootstrapping.create_task(self._bootstrap(guest))

    async def _start(self, machine: Object) -> Guest:
        name, namespace = objects.name(machine), objects.namespace(machine)
        owned = {"namespace": namespace, "ownerReferences": [objects.owner_reference(machine, controller=True)]}
        for template in objects.sequence(machine["spec"]["dataVolumeTemplates"]):
            metadata = {**objects.metadata(template), **owned}
            metadata.pop("creationTimestamp", None)
            disk = {"apiVersion": DISKS.api_version, "kind": DISKS.kind, "metadata": metadata, "spec": template["spec"]}
            await self._client.create(DISKS, disk)
        guest = Guest(name, next(self._addresses), await self._cloud_init(machine))
        await guest.start()
        template = machine["spec"]["template"]
        instance: Object = {
            "apiVersion": INSTANCES.api_version,
            "kind": INSTANCES.kind,
            "metadata": {"name": name, "labels": objects.labels(template), **owned},
            "spec": template["spec"],
            "status": {
                "phase": "Running",
                "interfaces": [{"name": "default", "ipAddress": guest.address}],
                "conditions": [{"type": type_, "status": "True"} for type_ in ("Ready", "LiveMigratable")],
            },
        }
        await self._client.create(INSTANCES, instance)
        status = {"status": {"created": True, "ready": True, "printableStatus": "Running"}}
        with contextlib.suppress(errors.NotFound):
            await self._client.patch(MACHINES, name, status, namespace, subresource="status")
        return guest

    async def _cloud_init(self, machine: Object) -> CloudInit:
        volumes = objects.sequence(objects.at(machine, "spec", "template", "spec", "volumes"))
        (secret,) = [
            each["cloudInitConfigDrive"]["secretRef"]["name"] for each in volumes if "cloudInitConfigDrive" in each
        ]
        found = await self._client.get(SECRETS, secret, objects.namespace(machine))
        return CloudInit.read(base64.b64decode(found["data"]["userdata"]).decode())

    async def _bootstrap(self, guest: Guest) -> None:
        await self.may_bootstrap.wait()
        if guest.cloud_init.begins_a_cluster:
            begun = workload.begun(self._folder / "workload", guest)
            self.workload = await self._stack.enter_async_context(begun)
        assert self.workload is not None, f"{guest.name} came before the cluster's first machine"
        if not guest.cloud_init.begins_a_cluster:
            authority = self.workload.connection.certificate_authority
            self.joined[guest.name] = await workload.joined(guest, authority)
        await workload.register(self.workload, guest, self._version)
        guest.files[BOOTSTRAPPED] = "success\n"
