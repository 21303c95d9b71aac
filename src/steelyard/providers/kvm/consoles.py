"""What machines have written to their consoles, read from the file that libvirt keeps in each one's directory."""

from __future__ import annotations

from steelyard.api.resources import KVM_HOSTS, KVM_MACHINES
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.providers.kvm import identity, machineplan
from steelyard.providers.kvm.fleet import Fleet
from steelyard.providers.kvm.libvirt import domains, folders
from steelyard.providers.kvm.libvirt.problems import Missing, Problem


class Consoles:
    def __init__(self, client: Client, fleet: Fleet) -> None:
        self._client = client
        self._fleet = fleet

    async def __call__(self, namespace: str, name: str, *, last: int) -> bytes:
        """Empty before the machine has first run. Raises NotFound and ServiceUnavailable."""
        machine = await self._client.get(KVM_MACHINES, name, namespace)
        provider_id, where = objects.at(machine, "spec", "providerID"), objects.at(machine, "spec", "host")
        if not (provider_id and where):
            return b""
        host = await self._client.get(KVM_HOSTS, str(where))
        connection, uuid = self._fleet.connection(host), identity.uuid_of(str(provider_id))
        try:
            domain = await domains.look(connection, uuid)
            if domain is None or not machineplan.is_owner(namespace, name, domain):
                # Whoever may make a KVMMachine can write any UUID into it.
                return b""
            return await folders.read(connection, uuid, identity.CONSOLE, last=last)
        except Missing:
            return b""
        except Problem as error:
            raise errors.ServiceUnavailable(
                f"host {where} cannot be asked for the console of {name}: {error}"
            ) from error
