"""Carries out what is planned for a machine on its host, and takes it away again. Every step can be repeated."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Awaitable, Callable, Sequence

from steelyard.frozen import frozen
from steelyard.kube.runtime.keys import Key
from steelyard.providers.kvm import addresses, identity
from steelyard.providers.kvm.documents import domains as domain_documents
from steelyard.providers.kvm.documents import markup, storage
from steelyard.providers.kvm.documents import networks as network_documents
from steelyard.providers.kvm.documents.domains import Guest, Owner
from steelyard.providers.kvm.documents.networks import Entry
from steelyard.providers.kvm.documents.storage import Volume
from steelyard.providers.kvm.fleet import Fleet
from steelyard.providers.kvm.libvirt import domains, folders, networks
from steelyard.providers.kvm.libvirt.connection import Connection
from steelyard.providers.kvm.libvirt.folders import Folder
from steelyard.providers.kvm.libvirt.problems import Exists, Failed, Missing, NoSpace, Problem, WrongState
from steelyard.providers.kvm.machineplan import Place, Seen, Step, Wish
from steelyard.providers.kvm.refusals import Refused
from steelyard.providers.kvm.wishes import Subject


@frozen
class Machine:
    """What the steps need to know of one."""

    subject: Subject
    wish: Wish
    guest: Guest | None
    """Where it is still to be defined."""
    seed: Callable[[bool, int], Awaitable[bytes]]
    """The seed's image: with the bootstrap data or spent, of at least so many bytes."""
    known_address: str = ""
    """That it had when it was last looked at."""


async def look(connection: Connection, uuid: str, places: Sequence[Place]) -> Seen:
    domain = await domains.look(connection, uuid)
    return Seen(domain, tuple([await folders.look(connection, place.uuid) for place in places]))


class Carrier:
    def __init__(self, fleet: Fleet, connection: Connection, machine: Machine) -> None:
        self._fleet = fleet
        self._connection = connection
        self._machine = machine

    async def carry_out(self, steps: Sequence[Step]) -> None:
        """Raises Problem and Refused. What was made of a machine that has never run is taken away where the host's disk
        is full: it would keep others from what is left."""
        for step in steps:
            try:
                await self._do(step)
            except NoSpace:
                if any(each.act == "define" for each in steps):
                    with contextlib.suppress(Problem):
                        await clear(self._connection, self._machine.wish.places)
                raise

    async def _do(self, step: Step) -> None:
        connection, machine, uuid = self._connection, self._machine, self._machine.subject.uuid
        place = machine.wish.places[step.place]
        match step.act:
            case "define folder":
                xml = storage.folder(identity.folder_name(place.uuid), place.uuid, place.path)
                await _unless(Exists, folders.define(connection, place.uuid, xml))
            case "build folder":
                await folders.build(connection, place.uuid)
            case "remove":
                await folders.remove(connection, place.uuid, step.file)
            case "make":
                assert step.volume is not None
                await _unless(Exists, folders.make(connection, place.uuid, storage.volume(step.volume)))
            case "seed":
                await self._write_seed(spent=machine.wish.has_joined)
            case "spend seed":
                await self._spend_seed()
            case "address":
                await self.address()
            case "define":
                assert machine.guest is not None
                await domains.define(connection, uuid, domain_documents.definition(machine.guest))
            case "autostart":
                await domains.autostart(connection, uuid)
            case "start":
                await self._start()
            case "resume":
                await _unless(WrongState, domains.resume(connection, uuid))

    async def _start(self) -> None:
        """One that somebody else has started meanwhile runs as well."""
        start = domains.start(self._connection, self._machine.subject.uuid, paused=self._machine.wish.starts_paused)
        await _unless(WrongState, start)

    async def _write_seed(self, *, spent: bool) -> None:
        uuid = self._machine.wish.places[0].uuid
        folder = await folders.look(self._connection, uuid)
        size = folder.files.get(identity.SEED, 0) if folder is not None else 0
        content = await self._machine.seed(spent, size)
        if size and len(content) > size:
            # Of another size than the one that a process left that ended in the middle.
            await folders.remove(self._connection, uuid, identity.SEED)
            size = 0
        if not size:
            volume = Volume(identity.SEED, len(content), "raw")
            await _unless(Exists, folders.make(self._connection, uuid, storage.volume(volume)))
        await folders.write(self._connection, uuid, identity.SEED, content)

    async def _spend_seed(self) -> None:
        """In place, over the bootstrap data; noted in the domain afterwards."""
        await self._write_seed(spent=True)
        subject = self._machine.subject
        spent = Owner(subject.namespace, subject.name, subject.cluster_name, "spent")
        await domains.describe(
            self._connection,
            subject.uuid,
            domain_documents.owner_element(spent),
            prefix=markup.PREFIX,
            namespace=markup.NAMESPACE,
        )

    async def address(self) -> str:
        """The machine's own in its cluster's network, given to it where it has none yet; "" on a bridge, where somebody
        else gives it one."""
        subject, layout = self._machine.subject, self._machine.subject.layout
        if layout is None:
            return ""
        name = subject.network
        async with self._fleet.network(self._connection.host, name):
            network = await networks.look(self._connection, name)
            if network is None or not network.is_active:
                raise Refused("NetworkGone", f"the cluster's network {name} is not there yet, or no longer")
            entries = network_documents.entries_of(network.xml)
            own = next((each for each in entries if each.mac == subject.mac), None)
            if own is not None:
                return own.address
            taken = {each.address for each in entries}
            chosen = self._machine.known_address
            if chosen not in layout.machines or chosen in taken:
                leased = await networks.leases(self._connection, name)
                others = {address for address, mac in leased.items() if mac != subject.mac}
                try:
                    chosen = addresses.free(layout, taken, others)
                except addresses.NoneLeft as error:
                    raise Refused("NoAddress", str(error)) from error
            entry = Entry(subject.mac, chosen, subject.name)
            await networks.add_host(self._connection, name, network_documents.entry(entry))
            return chosen


async def remove(connection: Connection, machine: Key, uuid: str, places: Sequence[Place]) -> None:
    """Everything of a machine. Its domain goes first, so that nothing writes to what is removed."""
    await domains.stop(connection, uuid)
    await domains.undefine(connection, uuid)
    mac = identity.mac(uuid)
    for network in await networks.all_of(connection):
        owner = network_documents.owner_of(network.xml)
        if owner is None or owner[0] != machine.namespace:
            continue
        for entry in network_documents.entries_of(network.xml):
            # The hardware address alone proves nothing: it is shorter than the UUID, and that is in the spec.
            if (entry.mac, entry.name) == (mac, machine.name):
                await _unless_gone(networks.remove_host(connection, network.name, network_documents.entry(entry)))
    await clear(connection, places)


async def clear(connection: Connection, places: Sequence[Place]) -> None:
    """The directories, with all that is in them. One that libvirt has forgotten is found by its path, if that is known;
    what is removed is never another's, as each is called by its machine's UUID. Raises Problem where libvirt knows one
    and it cannot be seen whether it is there: what is in it would be forgotten, and stay."""
    for place in places:
        folder = await folders.look(connection, place.uuid)
        if folder is not None:
            folder = await _unless_away(connection, place, folder)
        elif place.path:
            xml = storage.folder(identity.folder_name(place.uuid), place.uuid, place.path)
            await _unless(Exists, folders.define(connection, place.uuid, xml))
            folder = await folders.look(connection, place.uuid)
        if folder is None or posixpath.basename(storage.path_of(folder.xml)) != place.machine:
            continue
        for name in folder.files:
            await folders.remove(connection, place.uuid, name)
        await folders.stop(connection, place.uuid)
        if folder.is_there:
            await folders.erase(connection, place.uuid)
        await folders.undefine(connection, place.uuid)


async def _unless_away(connection: Connection, place: Place, folder: Folder) -> Folder | None:
    path = storage.path_of(folder.xml)
    is_anothers = posixpath.basename(path) != place.machine
    if folder.is_there or is_anothers:
        return folder
    root, uuid = posixpath.dirname(path), identity.derived_uuid(f"root/{place.uuid}")
    if folder.is_missing and await folders.can_be_seen(
        connection, uuid, storage.folder(identity.folder_name(uuid), uuid, root)
    ):
        # The root may have come back since the first look.
        again = await folders.look(connection, place.uuid)
        if again is None or again.is_there or again.is_missing:
            return again
        folder = again
    raise Failed(
        f"{path} cannot be looked at, so what is in it cannot be removed: {folder.trouble}. Bring {root} back, as by "
        "mounting it; or if it is lost, make it again, empty"
    )


async def _unless(problem: type[Problem], call: Awaitable[None]) -> None:
    """What is so already was what was wanted."""
    try:
        await call
    except problem:
        return


async def _unless_gone(call: Awaitable[None]) -> None:
    try:
        await call
    except (Missing, WrongState):
        return
