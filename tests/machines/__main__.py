"""`make e2e`: a claim becomes virtual machines with Kubernetes running in them; needs root, and half an hour or more.

python -m tests.machines                  one control-plane machine and workers, in stages
python -m tests.machines --ha             three control-plane machines
python -m tests.machines --brief          two machines without Kubernetes, to the end of cloud-init; minutes
python -m tests.machines --upstream       the provider alone, beside Cluster API's managers on kube-apiserver
python -m tests.machines --documented     the commands of docs/kvm.md
python -m tests.machines --fresh          from the beginning, also where an earlier run was broken off
python -m tests.machines --stages g       only these
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from steelyard.images.failing import BuildFailed
from tests.harness import ROOT, PlatformProcess, built, end_in_order
from tests.machines import barehost, documented, managed, priorities, registry, smallimage, story
from tests.machines.barehost import BareHost, virsh
from tests.machines.brief import Brief
from tests.machines.cluster import HOST_ADDRESS, Cluster, platform_file
from tests.machines.documented import Documented
from tests.machines.replicated import Replicated
from tests.machines.single import Single
from tests.machines.story import Memory

_FOLDER: Final = Path("/var/tmp/steelyard-e2e")
"""Where QEMU, which is not root, can read."""
_EMULATED: Final = 4.0
"""How much longer than with hardware everything may take."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make e2e", description="Run clusters of real virtual machines.")
    parser.add_argument("--ha", action="store_true", help="three control-plane machines")
    parser.add_argument("--brief", action="store_true", help="machines without Kubernetes, to the end of cloud-init")
    parser.add_argument("--claim", action="store_true", help="with --brief: and what a claim says of such a machine")
    parser.add_argument("--upstream", action="store_true", help="Cluster API's managers instead of ours")
    parser.add_argument("--documented", action="store_true", help="type what docs/kvm.md says")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run has done")
    parser.add_argument("--stages", default="", help="letters of the stages to run, also if they are done")
    parser.add_argument("--images", type=Path, default=_FOLDER / "images", help="where node images are, and are built")
    parser.add_argument("--no-build", action="store_true", help="take the images that are there")
    parser.add_argument("--kubernetes", default="v1.34.3", help="the version of the cluster")
    parser.add_argument("--next", default="v1.34.4", help="the version that its machines are rolled to")
    arguments = parser.parse_args()
    if arguments.brief:
        return _brief(with_claim=arguments.claim)
    if arguments.documented:
        return _documented(arguments.images, has_image=bool(arguments.no_build))
    wanted = ("kubectl", *managed.PROGRAMS) if arguments.upstream else ("kubectl",)
    programs: dict[str, str] = dict(zip(wanted, built(*wanted), strict=True))
    kubectl = programs["kubectl"]
    versions = (str(arguments.kubernetes), str(arguments.next))
    needed = versions[:1] if arguments.ha or arguments.upstream else versions
    for version in () if arguments.no_build or barehost.is_inside() else needed:
        _build_image(version, arguments.images)
    barehost.enter("tests.machines")
    folder = _FOLDER / ("upstream" if arguments.upstream else "replicated" if arguments.ha else "single")
    if arguments.fresh or arguments.upstream:
        shutil.rmtree(folder, ignore_errors=True)
    patience, machines = _boot(folder)
    memory = Memory(folder / "memory.json")
    if arguments.upstream:
        upstream = managed.Managed(folder, kubectl, arguments.images, machines, versions[0], patience)
        passed, failed = upstream.run(programs, memory)
        print(f"{passed} passed, {failed} failed")
        return 1 if failed or not passed else 0
    with PlatformProcess(
        folder / "platform", platform=platform_file(arguments.images, machines, round(patience))
    ) as platform:
        platform.start()
        cluster = Cluster(platform, kubectl, folder, "shop", patience)
        teller = (
            Replicated(cluster, memory, machines, versions[0])
            if arguments.ha
            else Single(cluster, memory, machines, versions)
        )
        passed, failed = story.tell(teller.stages(), memory, only=tuple(arguments.stages))
        if failed:
            print(f"what the platform logged is in {platform.log}", flush=True)
        # The platform first: it would start again what is shut down.
        platform.terminate()
        _shut_down()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def _brief(*, with_claim: bool) -> int:
    """Always from the beginning: what is kept is the image."""
    folder, images = _FOLDER / "brief" / "host", _FOLDER / "brief" / "images"
    if not barehost.is_inside():
        barehost.check()
        started = time.monotonic()
        smallimage.build(images)
        print(f"image without Kubernetes: {time.monotonic() - started:.0f} s", flush=True)
    barehost.enter("tests.machines")
    shutil.rmtree(folder, ignore_errors=True)
    patience, machines = _boot(folder)
    settings = platform_file(images, machines, round(patience), image=smallimage.NAME)
    with PlatformProcess(folder / "platform", platform=settings) as platform:
        platform.start()
        brief = Brief(platform, machines, patience, with_claim=with_claim)
        passed, failed = brief.run(Memory(folder / "memory.json"))
        if failed:
            print(f"what the platform logged is in {platform.log}", flush=True)
        platform.terminate()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def _documented(images: Path, *, has_image: bool) -> int:
    """Always from the beginning, but for the image and what pods are made of."""
    folder = _FOLDER / "documented"
    (kubectl,) = built("kubectl")
    if not barehost.is_inside():
        barehost.check()
        registry.image(_FOLDER / "registry", documented.POD)
        if not has_image:
            _build_image(documented.VERSION, images)
    barehost.enter("tests.machines")
    shutil.rmtree(folder, ignore_errors=True)
    patience, _ = _boot(folder)
    for name, held in (("", folder / "place"), ("images", images)):
        held.mkdir(exist_ok=True)
        (documented.PLACE / name).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "--bind", str(held), str(documented.PLACE / name)], check=True)
    reader = Documented(folder, kubectl, registry.image(_FOLDER / "registry", documented.POD), patience)
    passed, failed = reader.run(Memory(folder / "memory.json"))
    _shut_down()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def _boot(folder: Path) -> tuple[float, Path]:
    """How much longer than with hardware everything may take on this host, and where its machines are."""
    folder.mkdir(parents=True, exist_ok=True)
    patience = 1.0 if _has_hardware() else _EMULATED
    print(f"time-outs are {patience:.0f} x those for hardware" if patience > 1 else "with hardware", flush=True)
    BareHost(folder).boot()
    if patience > 1:
        priorities.keep()
    _add_host_address()
    machines = folder / "machines"
    machines.mkdir(exist_ok=True)
    return patience, machines


def _build_image(version: str, folder: Path) -> None:
    started = time.monotonic()
    command = [sys.executable, "-m", "steelyard", "image", "build", "--kubernetes", version, "--to", str(folder)]
    for story_ in ("single", "replicated", "upstream"):
        command += ["--machines", str(_FOLDER / story_ / "machines")]
    subprocess.run(command, cwd=ROOT, check=True)
    print(f"image of {version}: {time.monotonic() - started:.0f} s", flush=True)


def _has_hardware() -> bool:
    flags = Path("/proc/cpuinfo").read_text().split()
    return Path("/dev/kvm").exists() and ("vmx" in flags or "svm" in flags)


def _add_host_address() -> None:
    subprocess.run(["ip", "link", "add", "host0", "type", "bridge"], check=True)
    subprocess.run(["ip", "address", "add", f"{HOST_ADDRESS}/32", "dev", "host0"], check=True)
    subprocess.run(["ip", "link", "set", "host0", "up"], check=True)


def _shut_down() -> None:
    """As a host does that is switched off: what is not done by then is found on the disks at the next start."""
    for uuid in virsh("list", "--uuid").split():
        subprocess.run(["virsh", "-q", "shutdown", uuid], capture_output=True, check=False)
    deadline = time.monotonic() + 120
    while virsh("list", "--uuid") and time.monotonic() < deadline:
        time.sleep(2)


if __name__ == "__main__":
    end_in_order()
    try:
        sys.exit(main())
    except (barehost.CannotRun, BuildFailed) as error:
        sys.exit(str(error))
