"""What is decided without a host: addresses, places, steps, names, limits."""

from __future__ import annotations

import dataclasses
import ipaddress
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from steelyard.api.kvm import KVMClusterSpec, KVMMachineSpec
from steelyard.api.kvmhost import KVMHostSpec
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks
from steelyard.providers.kvm import addresses, identity, machineplan, placing, routes, sizes, wishes
from steelyard.providers.kvm.addresses import Layout
from steelyard.providers.kvm.documents import domains, networks, storage
from steelyard.providers.kvm.documents.domains import Owner
from steelyard.providers.kvm.documents.networks import Entry, Wanted
from steelyard.providers.kvm.documents.storage import Volume
from steelyard.providers.kvm.images import Base
from steelyard.providers.kvm.libvirt.domains import Domain
from steelyard.providers.kvm.libvirt.folders import Folder
from steelyard.providers.kvm.machineplan import Place, Seen, Step, Wish
from steelyard.providers.kvm.placing import Host, Need
from steelyard.providers.kvm.refusals import Refused
from steelyard.providers.kvm.restarts import Restarts
from steelyard.providers.kvm.wishes import Subject

UUID = "0b1e4b4c-6c7e-4f0e-9a53-3d4b8d1f2a60"
HOST: Object = {
    "uri": "qemu:///system",
    "storageRoots": ["/var/lib/steelyard/machines"],
    "imageRoots": ["/var/lib/steelyard/images"],
    "networks": {"ranges": ["10.200.0.0/16"]},
}
SIZES: Object = {"cpu": 2, "memory": "4Gi", "disk": "20Gi"}


def networks_of(*ranges: str) -> list[ipaddress.IPv4Network]:
    return [ipaddress.IPv4Network(each) for each in ranges]


def test_a_range_is_the_first_that_overlaps_nothing() -> None:
    assert addresses.cut(["10.200.0.0/22"], []) == "10.200.0.0/24"
    assert addresses.cut(["10.200.0.0/22"], networks_of("10.200.0.0/23", "10.0.0.0/9")) == "10.200.2.0/24"
    assert addresses.cut(["fd00::/64", "10.1.0.0/24"], []) == "10.1.0.0/24"
    with pytest.raises(addresses.NoneLeft, match="add a range"):
        addresses.cut(["10.200.0.0/24"], networks_of("10.200.0.128/25"))
    with pytest.raises(addresses.NoneLeft):
        addresses.cut(["10.200.0.0/25"], [])


def test_addresses_of_a_range_are_for_the_host_the_api_and_machines() -> None:
    layout = Layout.of("10.200.3.0/24")
    assert (layout.host, layout.api) == ("10.200.3.1", "10.200.3.10")
    assert (layout.machines[0], layout.machines[-1], len(layout.machines)) == ("10.200.3.20", "10.200.3.250", 231)
    assert [layout.may_be_api(f"10.200.3.{last}") for last in (1, 2, 19, 20)] == [False, True, True, False]
    assert not layout.may_be_api("10.200.4.10")
    assert not layout.may_be_api("api.example.org")


def test_an_address_that_a_machine_had_a_while_ago_is_not_given_out_while_it_may_be_in_use() -> None:
    layout = Layout.of("10.200.3.0/24")
    assert addresses.free(layout, {"10.200.3.20"}, {"10.200.3.21"}) == "10.200.3.22"
    with pytest.raises(addresses.NoneLeft, match="within an hour"):
        addresses.free(layout, set(layout.machines[1:]), {"10.200.3.20"})
    with pytest.raises(addresses.NoneLeft, match="all 231"):
        addresses.free(layout, set(layout.machines), set())


def test_router_ids_run_out_only_when_all_are_taken() -> None:
    assert addresses.free_router({51, 52}, first=51) == 53
    assert addresses.free_router(set(range(51, 256)), first=51) == 1
    with pytest.raises(addresses.NoneLeft):
        addresses.free_router(set(range(1, 256)), first=51)


def test_routes_of_the_host_are_kept_clear_of() -> None:
    table = [
        "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0",
        "eth0\t0000C80A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0",
        "sy-0123456789\t0003C90A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0",
    ]
    assert routes.parsed(table) == networks_of("10.200.0.0/16")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("8Gi", 8 << 30), ("8GB", 8 << 30), ("8G", 8_000_000_000), ("500Mi", 500 << 20), ("1Ti", 1 << 40)],
)
def test_sizes_are_read_as_the_documents_write_them(text: str, expected: int) -> None:
    assert sizes.in_bytes(text) == expected


def test_names_fit_where_they_go() -> None:
    assert len(identity.network_name("team", "shop", "10.200.0.0/24")) <= 15, "as Linux limits bridges"
    long = identity.domain_name("n" * 63, "m" * 63, UUID)
    assert long.endswith(f"-{UUID[:8]}")
    assert len(long) < 64
    assert identity.domain_name("team", "one", UUID) == f"team.one-{UUID[:8]}"
    assert identity.mac(UUID).startswith("52:54:00:")
    assert identity.network_name("a", "b", "10.0.0.0/24") != identity.network_name("a", "b", "10.0.1.0/24")


# Placing


def host(name: str = "metal", *, is_ready: bool = True, used: Need = Need(), **spec: Any) -> Host:  # noqa: B008 (frozen)
    known = KVMHostSpec.model_validate({**HOST, **spec})
    return Host(name, known, is_ready, "it is away", cpus=4, memory=16 << 30, used=used, machines=0)


def test_a_machine_goes_to_the_first_host_that_fits() -> None:
    need = Need(2, 4 << 30, 0)
    full = host("a", used=Need(32, 0, 0))
    assert placing.for_machine([host("c"), full, host("b")], "team", need, on="", bridge="").name == "b"
    assert placing.for_machine([host("b"), host("c")], "team", need, on="c", bridge="").name == "c"


@pytest.mark.parametrize(
    "etcd", [{"hostPath": "/srv/etcd"}, {"hostPath": "/srv/etcd", "size": "30Gi"}, {"size": "5Gi"}, None], ids=str
)
def test_what_is_made_of_disks_is_what_counts(etcd: Object | None) -> None:
    size = {"cpu": 1, "memory": "1Gi", "disk": "20Gi", "dockerVolumeSize": "7Gi", "kubeletVolumeSize": "3Gi"}
    roots = {"hostVolumeRoots": [{"path": "/srv", "namespaces": ["team"]}]}
    known = dataclasses.replace(
        subject(resources=size, etcdVolume=etcd), host=KVMHostSpec.model_validate({**HOST, **roots})
    )
    made = sum(volume.size for place in wishes.places(known) for volume in place.volumes)
    assert Need.of(known.spec).disk == made


def test_why_no_host_fits_is_said_of_each() -> None:
    hosts = [
        host("away", is_ready=False),
        host("others", namespaces=["somebody"]),
        host("busy", used=Need(1, 14 << 30, 0)),
        host("small", capacity={"cpu": 1, "diskGi": 10}, overcommit={"cpu": 1}),
        host("thin", capacity={"diskGi": 10}),
    ]
    with pytest.raises(Refused) as refused:
        placing.for_machine(hosts, "team", Need(2, 4 << 30, 20 << 30), on="", bridge="")
    assert refused.value.reason == "NoHost"
    assert str(refused.value) == (
        "no KVMHost fits. away: it is not ready (it is away); busy: 14 of 16 GiB of memory are promised, 4 are asked "
        "for, and each machine takes 0.2 besides; others: its namespaces do not name team; small: 0 of 1 cores are "
        "promised, and 2 are asked for (overcommit.cpu says how often each is); thin: 0 of 10 GiB of disks are "
        "promised, and 20 are asked for"
    )
    with pytest.raises(Refused, match=r"there is no KVMHost: name one under kvm\.hosts"):
        placing.for_cluster([], "team")
    with pytest.raises(Refused, match="no range of IPv4 addresses"):
        placing.for_cluster([host(networks={"ranges": ["fd00::/48"]})], "team")


# Steps

PLACES = (Place(UUID, UUID, f"/machines/{UUID}", (Volume("root.qcow2", 100), Volume("etcd.qcow2", 50))),)


def wish(*, has_lived: bool = False, has_joined: bool = False) -> Wish:
    return Wish("team", "one", PLACES, has_lived=has_lived, has_joined=has_joined)


def folder(**files: int) -> Folder:
    named = {name.replace("_", "."): size for name, size in files.items()}
    return Folder(storage.folder("x", UUID, f"/machines/{UUID}"), True, named)


def domain(state: Any = "running", *, owner: Owner | None = None, **more: Any) -> Domain:
    guest = wishes.guest(subject(), PLACES, is_emulated=True)
    xml = domains.definition(guest)
    if owner is not None:
        xml = xml.replace('namespace="team"', f'namespace="{owner.namespace}"').replace("bootstrap", owner.seed)
    return Domain(UUID, "team.one", state, xml, is_persistent=True, is_autostarted=True, **more)


def subject(**spec: Any) -> Subject:
    return Subject(
        "team",
        "one",
        "shop",
        UUID,
        KVMMachineSpec.model_validate({"resources": SIZES, **spec}),
        KVMClusterSpec.model_validate({"range": "10.200.3.0/24", "host": "metal", "virtualRouterID": 51}),
        KVMHostSpec.model_validate(HOST),
        is_control_plane=False,
    )


def acts(of: list[Step]) -> list[str]:
    return [f"{step.act} {step.file or (step.volume.name if step.volume else '')}".strip() for step in of]


FIRST = ["seed", "address", "define", "autostart", "start"]
COMPLETE = folder(root_qcow2=100, etcd_qcow2=50, seed_iso=10)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(
            Seen(None, (None,)),
            ["define folder", "build folder", "make root.qcow2", "make etcd.qcow2", *FIRST],
            id="nothing is there",
        ),
        pytest.param(
            Seen(None, (Folder(storage.folder("x", UUID, f"/machines/{UUID}"), False, {}),)),
            ["build folder", "make root.qcow2", "make etcd.qcow2", *FIRST],
            id="it was killed before the directory was made",
        ),
        pytest.param(
            Seen(None, (folder(root_qcow2=0),)),
            ["remove root.qcow2", "make root.qcow2", "make etcd.qcow2", *FIRST],
            id="a disk is half made",
        ),
        pytest.param(Seen(None, (COMPLETE,)), FIRST, id="only its definition is missing"),
        pytest.param(Seen(domain(), (COMPLETE,)), [], id="it runs"),
        pytest.param(Seen(domain("stopped"), (COMPLETE,)), ["address", "start"], id="it was stopped"),
        pytest.param(
            Seen(domain("paused", is_out_of_space=True), (COMPLETE,)), ["resume"], id="there was no space for it"
        ),
        pytest.param(Seen(domain("paused"), (COMPLETE,)), [], id="somebody paused it"),
        pytest.param(
            Seen(domain(), (folder(root_qcow2=100, etcd_qcow2=50),)), ["seed"], id="somebody took its seed away"
        ),
    ],
)
def test_what_is_missing_is_done_in_order(seen: Seen, expected: list[str]) -> None:
    assert acts(machineplan.steps(wish(), seen)) == expected


def test_the_seed_is_spent_once_the_node_was_seen() -> None:
    assert acts(machineplan.steps(wish(has_joined=True), Seen(domain(), (COMPLETE,)))) == ["spend seed"]
    spent = domain(owner=Owner("team", "one", seed="spent"))
    assert machineplan.steps(wish(has_joined=True), Seen(spent, (COMPLETE,))) == []


@pytest.mark.parametrize(
    ("known", "seen", "reason"),
    [
        pytest.param(wish(), Seen(domain(), (folder(root_qcow2=1),)), "DiskGone", id="a domain without its disk"),
        pytest.param(wish(), Seen(domain("stopped"), (None,)), "DiskGone", id="without its directory"),
        pytest.param(wish(has_lived=True), Seen(None, (None,)), "DiskGone", id="one that ran, and nothing is left"),
        pytest.param(wish(), Seen(domain(owner=Owner("other", "one")), (COMPLETE,)), "NotOurs", id="another's domain"),
        pytest.param(
            wish(),
            Seen(None, (Folder(storage.folder("x", UUID, "/etc"), True, {}),)),
            "NotOurs",
            id="another's directory",
        ),
    ],
)
def test_nothing_is_done_where_a_machine_is_lost_or_anothers(known: Wish, seen: Seen, reason: str) -> None:
    with pytest.raises(Refused) as refused:
        machineplan.steps(known, seen)
    assert refused.value.reason == reason


def test_a_machine_that_does_not_stay_up_is_started_ever_later() -> None:
    restarts = Restarts(clocks.VirtualClock())
    assert restarts.wait(UUID) == 0
    waits: list[float] = []
    for _ in range(9):
        restarts.started(UUID)
        waits.append(round(restarts.wait(UUID)))
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    restarts.forget(UUID)
    assert restarts.wait(UUID) == 0


# Documents


def test_the_definition_of_a_machine_says_all_that_its_spec_does() -> None:
    asked = subject(
        resources={**SIZES, "dockerVolumeSize": "5Gi"},
        limits={"guest": {"cpu": "1.5"}, "process": {"cpu": "2500m", "memory": "5Gi"}},
    )
    places = wishes.places(asked, Base("/images/node.qcow2", "qcow2", 1 << 30))
    root = ET.fromstring(domains.definition(wishes.guest(asked, places, is_emulated=False)))

    assert root.get("type") == "kvm"
    assert root.findtext("memory") == str(4 << 20)
    assert [each.findtext("serial") for each in root.iterfind("devices/disk")] == ["root", "containers", "seed"]
    assert [bool(each.find("readonly") is not None) for each in root.iterfind("devices/disk")] == [False, False, True]
    chain = root.find("devices/disk/backingStore/source")
    assert chain is not None
    assert chain.get("file") == "/images/node.qcow2"
    limits = {name: root.findtext(f"cputune/{name}") for name in ("quota", "global_quota")}
    assert limits == {"quota": "75000", "global_quota": "250000"}
    assert root.findtext("memtune/hard_limit") == str(5 << 20)
    assert domains.owner_of(domains.definition(wishes.guest(asked, places, is_emulated=True))) == Owner(
        "team", "one", "shop"
    )


@pytest.mark.parametrize(
    ("memory", "limit", "kept"),
    [
        ("4Gi", None, "2048"),
        ("1Gi", None, "1024"),
        ("4Gi", "8Gi", "2048"),
        ("4Gi", "5Gi", "768"),
        ("4Gi", "4Gi", "32"),
    ],
)
def test_an_emulator_keeps_as_much_of_what_it_has_translated_as_it_may(
    memory: str, limit: str | None, kept: str
) -> None:
    asked = subject(
        resources={**SIZES, "memory": memory}, **({"limits": {"process": {"memory": limit}}} if limit else {})
    )
    places = wishes.places(asked, Base("/images/node.qcow2", "qcow2", 1 << 30))
    emulated, virtualised = (
        ET.fromstring(domains.definition(wishes.guest(asked, places, is_emulated=is_emulated)))
        for is_emulated in (True, False)
    )
    assert emulated.findtext("features/tcg/tb-cache") == kept
    assert virtualised.find("features/tcg") is None


def test_a_root_disk_is_not_smaller_than_its_image() -> None:
    with pytest.raises(Refused, match=r"smaller than the image, which is 30.0 GiB"):
        wishes.places(subject(), Base("/images/node.qcow2", "qcow2", 30 << 30))


def test_nothing_in_a_name_becomes_markup() -> None:
    wanted = Wanted("sy-1", UUID, "NAT", "10.0.0.1", 24, "a&b", '"<c>', {"x.example.org": "10.0.0.10"})
    made = networks.definition(wanted)
    assert networks.owner_of(made) == ("a&b", '"<c>')
    assert networks.ranges_of(made) == networks_of("10.0.0.0/24")
    assert "no-resolv" not in made
    assert "no-resolv" in networks.definition(Wanted("sy-1", UUID, "Isolated", "10.0.0.1", 24, "a", "b", {})), (
        "its DNS server asks nobody else"
    )


def test_entries_of_a_network_are_read_as_they_were_written() -> None:
    entry = Entry("52:54:00:00:00:01", "10.0.0.20", "one")
    wanted = Wanted("sy-1", UUID, "NAT", "10.0.0.1", 24, "a", "b", {})
    made = networks.definition(wanted).replace("<dhcp />", f"<dhcp>{networks.entry(entry)}</dhcp>")
    assert networks.entries_of(made) == [entry]
