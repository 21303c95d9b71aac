"""Boots an image, emulated, and sees from its console that it is a node: `python -m tests.images.boot IMAGE`.

Not part of `make test`: it takes a minute or more, and needs QEMU and a built image. The image is only read; nothing is
left. With `--kubeadm` it goes on until the machine is a cluster by itself: `kubeadm init` with what is in the image,
the Node Ready by flannel, CoreDNS running. No name is resolved in the machine's network, so what is missing is missed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import yaml

from steelyard.compose.integrations import flannel
from steelyard.images import manifest
from steelyard.providers.kvm.seed import files

PODS: Final = "10.244.0.0/16"
_DONE: Final = "SEEN-ALL"
_UUID: Final = "5f2c7e0a-6d0b-4c55-8f53-1c0f0ac0ffee"
_MAC: Final = "52:54:00:12:34:56"
_LAST_LINES: Final = 30
_SCRIPT: Final = """#!/bin/sh
exec > /dev/ttyS0 2>&1
set -u
say() { echo "SEEN $(cut -d' ' -f1 /proc/uptime) $*"; }
say kubeadm "$(kubeadm version -o short)"
say kubelet "$(kubelet --version)"
say containerd "$(systemctl is-active containerd)"
for image in $(ctr -n k8s.io images ls -q); do say image "$image"; done
say failed "$(systemctl --failed --plain --no-legend | wc -l)"
say root "$(findmnt -no SIZE -b /)"
[ -e /etc/kubeadm.yaml ] || { echo SEEN-ALL; exit; }
export KUBECONFIG=/etc/kubernetes/admin.conf
kubeadm init --config /etc/kubeadm.yaml || { echo "kubeadm failed"; echo SEEN-ALL; exit; }
say initialised yes
kubectl apply -f /etc/flannel.yaml
kubectl wait --for=condition=Ready node --all --timeout=1800s && say node Ready
kubectl taint nodes --all node-role.kubernetes.io/control-plane-
kubectl -n kube-system wait --for=condition=Available deployment/coredns --timeout=1800s && say coredns Available
echo SEEN-ALL
"""
_KUBEADM: Final = """apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
timeouts: {{controlPlaneComponentHealthCheck: 30m, kubernetesAPICall: 10m, kubeletHealthCheck: 10m}}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: {version}
networking: {{podSubnet: {pods}}}
"""


class NotSeen(Exception):
    """The message says what the console did not show."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Boot an image and see from its console that it is a node.")
    parser.add_argument("image", type=Path)
    parser.add_argument("--kubeadm", action="store_true", help="make a cluster of it, too")
    parser.add_argument("--seconds", type=float, default=0, help="how long to wait; default: 240, with --kubeadm 2400")
    given = parser.parse_args()
    try:
        check(given.image.absolute(), given.seconds or (2400 if given.kubeadm else 240), with_kubeadm=given.kubeadm)
    except NotSeen as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def check(image: Path, seconds: float, *, with_kubeadm: bool) -> None:
    kept = manifest.read(image)
    if kept is None:
        raise NotSeen(f"{image} has no manifest")
    with tempfile.TemporaryDirectory(prefix="steelyard-boot-") as folder:
        told = _user_data(kept.kubernetes, with_kubeadm=with_kubeadm)
        seen = _seen(image, Path(folder), told, seconds)
    expected: dict[str, Any] = {
        "kubeadm": [kept.kubernetes],
        "kubelet": [f"Kubernetes {kept.kubernetes}"],
        "containerd": ["active"],
        "failed": ["0"],
    }
    if with_kubeadm:
        expected |= {"initialised": ["yes"], "node": ["Ready"], "coredns": ["Available"]}
    for name, value in expected.items():
        if seen.get(name) != value:
            raise NotSeen(f"{name} is {seen.get(name)} on the console, and should be {value}")
    if absent := {each.name for each in kept.images} - set(seen.get("image", [])):
        raise NotSeen(f"container images are missing: {', '.join(sorted(absent))}")
    if int(seen["root"][0]) < 9 << 30:
        raise NotSeen(f"root did not grow to its disk: it has {seen['root'][0]} bytes")


def _seen(image: Path, folder: Path, told: bytes, seconds: float) -> dict[str, list[str]]:
    """What the script in the machine said, by its first word."""
    overlay, seed, console = folder / "root.qcow2", folder / "seed.iso", folder / "console.log"
    command = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(image), "-F", "qcow2", str(overlay), "10G"]
    subprocess.run(command, check=True)
    network = files.network(_MAC, ())
    seed.write_bytes(files.seed(_UUID, "node", user_data=told, vendor_data="", network=network))
    console.touch()
    machine = subprocess.Popen(_qemu(overlay, seed, console), stdin=subprocess.DEVNULL)
    began = time.monotonic()
    lines: list[str] = []
    try:
        while _DONE not in lines:
            if machine.poll() is not None:
                raise NotSeen(f"QEMU ended with exit code {machine.returncode}")
            if time.monotonic() - began > seconds:
                raise NotSeen(
                    "\n".join(
                        (f"not all was seen after {seconds:.0f} s; the end of the console:", *lines[-_LAST_LINES:])
                    )
                )
            time.sleep(1)
            now = console.read_text(errors="replace").replace("\r", "").splitlines()
            for line in now[len(lines) :]:
                if line.startswith("SEEN "):
                    print(f"{time.monotonic() - began:6.1f} s  {line.split(' ', 2)[2]}", flush=True)
            lines = now
    finally:
        machine.kill()
        machine.wait()
    seen: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("SEEN "):
            _, _, name, value = line.split(" ", 3)
            seen.setdefault(name, []).append(value)
    return seen


def _user_data(version: str, *, with_kubeadm: bool) -> bytes:
    written = [{"path": "/root/look", "permissions": "0755", "content": _SCRIPT}]
    if with_kubeadm:
        manifests = "---\n".join(yaml.safe_dump(each) for each in flannel.manifests(PODS))
        written += [
            {"path": "/etc/kubeadm.yaml", "content": _KUBEADM.format(version=version, pods=PODS)},
            {"path": "/etc/flannel.yaml", "content": manifests},
        ]
    return b"#cloud-config\n" + yaml.safe_dump({"write_files": written, "runcmd": ["/root/look"]}, width=10**6).encode()


def _qemu(overlay: Path, seed: Path, console: Path) -> list[str]:
    """Emulated as the platform's machines are where they have to be."""
    return [
        "qemu-system-x86_64", "-accel", "tcg,thread=multi,tb-size=2048", "-cpu", "max,erms=off,fsrm=off",
        "-smbios", "type=1,family=emulated", "-machine", "q35", "-smp", "2", "-m", "3072",
        "-display", "none", "-monitor", "none", "-serial", f"file:{console}",
        "-drive", f"if=virtio,file={overlay},format=qcow2,cache=unsafe",
        "-drive", f"if=virtio,file={seed},format=raw,readonly=on",
        "-netdev", "user,id=net,ipv6=off,dns=10.0.2.99", "-device", f"virtio-net-pci,netdev=net,mac={_MAC},romfile=",
        "-device", "virtio-rng-pci",
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
