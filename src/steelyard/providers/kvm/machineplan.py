"""What is to be done for a machine, from what it is to be and what was seen of it on its host. Pure.

Files first, the definition after them: a domain that is defined has all of its disks, and a disk that is missing then
has been taken away. Until it is defined nothing was ever started, and whatever is there can be made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from steelyard.frozen import frozen
from steelyard.providers.kvm import identity
from steelyard.providers.kvm.documents import domains as domain_documents
from steelyard.providers.kvm.documents import storage
from steelyard.providers.kvm.documents.storage import Volume
from steelyard.providers.kvm.libvirt.domains import Domain
from steelyard.providers.kvm.libvirt.folders import Folder
from steelyard.providers.kvm.refusals import Refused


@frozen
class Place:
    """A directory of the machine's on its host, and the disks in it."""

    machine: str
    """UUID of the machine, and the directory's name."""
    uuid: str
    """Of the storage pool."""
    path: str
    """Empty where it is not known."""
    volumes: tuple[Volume, ...]


@frozen
class Wish:
    namespace: str
    name: str
    places: tuple[Place, ...]
    """The first has the seed and the console's log as well."""
    has_lived: bool
    """Whether it is known that the machine ran once: a disk that is missing then is lost, and not to be made."""
    has_joined: bool
    """Whether its Node was seen, and the bootstrap data is of no more use."""
    starts_paused: bool = False


@frozen
class Seen:
    domain: Domain | None
    folders: tuple[Folder | None, ...]
    """Of the places, in their order."""


Act: TypeAlias = Literal[
    "define folder",
    "build folder",
    "remove",
    "make",
    "seed",
    "address",
    "define",
    "autostart",
    "start",
    "resume",
    "spend seed",
]


@frozen
class Step:
    act: Act
    place: int = 0
    volume: Volume | None = None
    file: str = ""


def steps(wish: Wish, seen: Seen) -> list[Step]:
    """In this order. Raises Refused where nothing may be done."""
    _refuse_others(wish, seen)
    if seen.domain is None:
        return [*_files(wish, seen), Step("seed"), Step("address"), Step("define"), Step("autostart"), Step("start")]
    refuse_if_lost(wish, seen)
    made: list[Step] = []
    folder = seen.folders[0]
    is_seedless = folder is None or identity.SEED not in folder.files
    if is_seedless:
        made.append(Step("seed"))
    if not seen.domain.is_persistent:
        made.append(Step("define"))
    if not seen.domain.is_autostarted:
        made.append(Step("autostart"))
    owner = domain_documents.owner_of(seen.domain.xml)
    if wish.has_joined and (owner is None or owner.seed != "spent" or is_seedless):
        made.append(Step("spend seed"))
    if seen.domain.state == "stopped":
        made += [Step("address"), Step("start")]
    elif seen.domain.is_out_of_space:
        made.append(Step("resume"))
    return made


def is_owner(namespace: str, name: str, domain: Domain) -> bool:
    owner = domain_documents.owner_of(domain.xml)
    return owner is not None and (owner.namespace, owner.name) == (namespace, name)


def _refuse_others(wish: Wish, seen: Seen) -> None:
    """The UUID in a spec may be anybody's: of another machine, or of a storage pool of the host's own."""
    if seen.domain is not None and not is_owner(wish.namespace, wish.name, seen.domain):
        owner = domain_documents.owner_of(seen.domain.xml)
        whose = f"KVMMachine {owner.namespace}/{owner.name}" if owner is not None else "somebody else"
        raise Refused("NotOurs", f"the domain with the UUID of spec.providerID is of {whose}: delete this KVMMachine")
    for place, folder in zip(wish.places, seen.folders, strict=True):
        if folder is not None and storage.path_of(folder.xml) != place.path:
            raise Refused(
                "NotOurs",
                f"the storage pool with the UUID of spec.providerID is of {storage.path_of(folder.xml)}: delete this "
                "KVMMachine",
            )


def refuse_if_lost(wish: Wish, seen: Seen) -> None:
    """Raises Refused where a disk is gone that the machine has written to."""
    gone: list[str] = []
    for place, folder in zip(wish.places, seen.folders, strict=True):
        there = folder.files if folder is not None else {}
        gone += [f"{place.path}/{each.name}" for each in place.volumes if each.name not in there]
    if gone:
        raise Refused(
            "DiskGone",
            f"{', '.join(gone)}: not there any more, and what was on it is lost with it. It is not made again by "
            "itself: delete the Machine, or let a health check replace it; or bring the file back",
        )


def _files(wish: Wish, seen: Seen) -> Sequence[Step]:
    if wish.has_lived:
        refuse_if_lost(wish, seen)
    made: list[Step] = []
    for number, (place, folder) in enumerate(zip(wish.places, seen.folders, strict=True)):
        if folder is None:
            made.append(Step("define folder", number))
        if folder is None or not folder.is_there:
            made.append(Step("build folder", number))
        for volume in place.volumes:
            size = folder.files.get(volume.name) if folder is not None else None
            if size == volume.size:
                continue
            if size is not None and not wish.has_lived:
                # What a process that ended in the middle left.
                made.append(Step("remove", number, file=volume.name))
            if size is None or not wish.has_lived:
                made.append(Step("make", number, volume))
    return made
