"""What is written for machines, as kubeadm and cloud-init themselves read it: kubeadm takes its configuration, and
cloud-init renders, accepts and unpacks the data around it.

kubeadm is built by `python tools/upstream/build.py kubeadm` (`make ecosystem` does), cloud-init is Debian's package;
what is not there is skipped.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.compose.infrastructures import probes
from steelyard.controllers.lifecycle.certificates import File
from steelyard.controllers.lifecycle.kubeadmconfig import cloudinit, kubeadm
from steelyard.kube import objects
from steelyard.kube.objects import Object
from tests.controllers.lifecycle import drawn
from tests.controllers.lifecycle.drawn import ENDPOINT, ID, NAME
from tests.harness import found

ROOT = Path(__file__).resolve().parents[3]
VERSIONS = ("v1.33.0", "v1.34.0", "v1.34.4")
"""kubeadm reads what is written for its own minor version and the one before."""
INSTANCE = {"ds": {"meta_data": {"hostname": "shop-1", "instance_id": "0b7c"}}, "v1": {"instance_id": "0b7c"}}
DRAWN = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


KUBEADM = os.environ.get("KUBEADM") or found("kubeadm")
CLOUD_INIT = os.environ.get("CLOUD_INIT") or shutil.which("cloud-init") or ""
needs_kubeadm = pytest.mark.skipif(not KUBEADM, reason="kubeadm is not built: python tools/upstream/build.py kubeadm")
_PATCHED = """
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {{advertiseAddress: 10.0.0.1}}
nodeRegistration: {{name: shop-1}}
patches: {{directory: {folder}}}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.34.4
"""
_OVER_ETC = "lowerdir=/etc,upperdir=/mnt/up,workdir=/mnt/work"
needs_cloud_init = pytest.mark.skipif(not CLOUD_INIT, reason="cloud-init is not installed: apt-get install cloud-init")


def accepted(folder: Path, text: str) -> None:
    file, kubeconfig = folder / "kubeadm.yaml", folder / "discovery.conf"
    kubeconfig.touch()
    # kubeadm looks whether it is there.
    file.write_text(text.replace("/etc/kubernetes/discovery.conf", str(kubeconfig)))
    command = [KUBEADM, "config", "validate", "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"{done.stderr}\n{text}"
    assert "unknown field" not in done.stderr, f"{done.stderr}\n{text}"


def rendered(text: str) -> str:
    return text.replace(NAME, "shop-1").replace("{{ ds.meta_data.instance_id }}", "0b7c")


def cluster(pods: list[str], services: list[str], domain: str) -> Object:
    network: Object = {"pods": {"cidrBlocks": pods}, "services": {"cidrBlocks": services}, "serviceDomain": domain}
    return {"metadata": {"name": "shop"}, "spec": {"clusterNetwork": network}}


@needs_kubeadm
@pytest.mark.skipif(os.geteuid() != 0, reason="kubeadm writes to /etc/kubernetes, which is mounted over")
def test_every_probe_of_a_slow_control_plane_has_somebody_to_ask(tmp_path: Path) -> None:
    """A patch of a probe that kubeadm does not make would be all that the probe is, and the pod be refused."""
    for each in probes.patches(60, 30, "v1.34.4"):
        (tmp_path / Path(each["path"]).name).write_text(each["content"])
    config = tmp_path / "kubeadm.yaml"
    config.write_text(_PATCHED.format(folder=tmp_path))
    phases = [f"{KUBEADM} init phase {phase} --config {config} >&2" for phase in ("control-plane all", "etcd local")]
    script = " && ".join(
        ["mkdir -p /etc/kubernetes", "mount -t tmpfs none /etc/kubernetes", *phases, "cat /etc/kubernetes/manifests/*"]
    )
    # Over the folder that it is mounted into, so that none is left where there was none.
    inside = (
        f"mount -t tmpfs none /mnt && mkdir /mnt/up /mnt/work && mount -t overlay none -o {_OVER_ETC} /etc && {script}"
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", inside], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    made = done.stdout.split("apiVersion: v1\n")[1:]
    containers = {each["name"]: each for text in made for each in yaml.safe_load(text)["spec"]["containers"]}
    assert containers.keys() == {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
    for name, container in containers.items():
        asked = {key: each for key, each in container.items() if key.endswith("Probe")}
        assert all(each["httpGet"]["path"] and each["timeoutSeconds"] == 60 for each in asked.values()), asked
        periods = {key: each["periodSeconds"] for key, each in asked.items()}
        assert periods == {key: 10 if key == "startupProbe" else 30 for key in periods}, f"{name}: {periods}"


@needs_kubeadm
@pytest.mark.parametrize("version", VERSIONS)
def test_kubeadm_takes_what_is_written_for_nothing_in_particular(tmp_path: Path, version: str) -> None:
    accepted(tmp_path, kubeadm.init_documents({}, cluster([], [], ""), version=version, endpoint=ENDPOINT))
    discovery = {
        "bootstrapToken": {
            "token": "abcdef.0123456789abcdef",
            "apiServerEndpoint": ENDPOINT,
            "unsafeSkipCAVerification": True,
        }
    }
    accepted(tmp_path, kubeadm.join_document({"discovery": discovery}, version=version))
    accepted(tmp_path, kubeadm.join_document({"discovery": discovery, "controlPlane": {}}, version=version))


@needs_kubeadm
@DRAWN
@given(
    version=st.sampled_from(VERSIONS),
    configuration=drawn.cluster_configurations,
    init=drawn.init_configurations,
    families=st.sampled_from(
        [(["10.1.0.0/16"], ["10.2.0.0/16"]), (["10.1.0.0/16", "fd01::/48"], ["10.2.0.0/16", "fd02::/112"]), ([], [])]
    ),
    domain=st.sampled_from(["", "cluster.local", "shop.example.org"]),
)
def test_kubeadm_takes_every_first_machines_configuration(
    tmp_path: Path,
    version: str,
    configuration: Object,
    init: Object,
    families: tuple[list[str], list[str]],
    domain: str,
) -> None:
    spec: Object = {"clusterConfiguration": configuration, "initConfiguration": init}
    text = kubeadm.init_documents(spec, cluster(*families, domain), version=version, endpoint=ENDPOINT)
    accepted(tmp_path, rendered(text))


@needs_kubeadm
@DRAWN
@given(version=st.sampled_from(VERSIONS), join=drawn.join_configurations)
def test_kubeadm_takes_every_joining_machines_configuration(tmp_path: Path, version: str, join: Object) -> None:
    accepted(tmp_path, rendered(kubeadm.join_document(join, version=version)))


def composed() -> list[Any]:
    """Of every golden case: how its control plane's machines, and its workers, are to be started."""
    found: list[Any] = []
    for case in sorted((ROOT / "tests" / "golden").glob("*/*/desired.yaml")):
        parts: Any = yaml.load(case.read_bytes(), yaml.CSafeLoader).get("desired") or {}
        for name, part in parts.items():
            made: Any = part.get("object") or part
            if made.get("kind") in ("KubeadmControlPlane", "KubeadmConfigTemplate"):
                spec = made["spec"].get("kubeadmConfigSpec") or made["spec"]["template"]["spec"]
                found.append(pytest.param(spec, id=f"{case.parent.parent.name}/{case.parent.name}/{name}"))
    assert found
    return found


@needs_kubeadm
@pytest.mark.parametrize("spec", composed())
def test_kubeadm_takes_what_is_composed(tmp_path: Path, spec: Object) -> None:
    token = {"token": "abcdef.0123456789abcdef", "apiServerEndpoint": ENDPOINT, "caCertHashes": [f"sha256:{'0' * 64}"]}
    join: Object = {**objects.mapping(spec.get("joinConfiguration")), "discovery": {"bootstrapToken": token}}
    accepted(tmp_path, rendered(kubeadm.join_document(join, version="v1.34.4")))
    if "clusterConfiguration" in spec:
        around = cluster(["10.1.0.0/16"], ["10.2.0.0/16"], "cluster.local")
        accepted(tmp_path, rendered(kubeadm.init_documents(spec, around, version="v1.34.4", endpoint=ENDPOINT)))
        accepted(tmp_path, rendered(kubeadm.join_document({**join, "controlPlane": {}}, version="v1.34.4")))


def tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CLOUD_INIT, *arguments], capture_output=True, text=True, check=False, timeout=120, env={**os.environ}
    )


EVERYTHING: Object = {
    "verbosity": 4,
    "bootCommands": ["cloud-init-per once disks true"],
    "preKubeadmCommands": ["echo \"a: 'b' #c\" > /tmp/x", "set -eu\nswapoff -a\n", "echo ${HOME}"],
    "postKubeadmCommands": ["kubeadm version"],
    "users": [
        {
            "name": "admin",
            "gecos": "Admin: of all",
            "groups": "sudo, adm",
            "homeDir": "/home/admin",
            "shell": "/bin/bash",
            "sudo": "ALL=(ALL) NOPASSWD:ALL",
            "passwd": "$6$salt$hash",
            "lockPassword": False,
            "inactive": True,
            "primaryGroup": "admin",
            "sshAuthorizedKeys": ["ssh-ed25519 AAAA somebody@example.org"],
        },
        {"name": "guest", "lockPassword": True, "inactive": False},
    ],
    "ntp": {"enabled": True, "servers": ["10.0.0.1", "time.example.org"]},
    "diskSetup": {
        "partitions": [{"device": "/dev/vdb", "layout": True, "overwrite": False, "tableType": "gpt"}],
        "filesystems": [
            {
                "device": "/dev/vdb",
                "filesystem": "ext4",
                "label": "data",
                "partition": "auto",
                "overwrite": False,
                "replaceFS": "xfs",
                "extraOpts": ["-E", "lazy_itable_init=1"],
            }
        ],
    },
    "mounts": [["LABEL=data", "/data", "ext4", "defaults,nofail"]],
}
FILES = (
    File("/etc/kubernetes/pki/ca.key", "-----BEGIN KEY-----\nAAAA\n-----END KEY-----\n", permissions="0600"),
    File("/etc/motd", "welcome\n", append=True, permissions="", owner=""),
    File("/opt/a.gz", base64.b64encode(gzip.compress(b"packed")).decode(), encoding="gzip+base64"),
    File("/opt/b", base64.b64encode(b"\x00\xff").decode(), encoding="base64", owner="admin:admin", defer=True),
    File("/opt/c", "  indented\n\n\ttab: 'and' \"quotes\" # trailing  \nmachine {{ ds.meta_data.hostname }}"),
)


@needs_cloud_init
@pytest.mark.parametrize("kind", ["init", "join"])
def test_cloud_init_renders_accepts_and_unpacks_it(tmp_path: Path, kind: str) -> None:
    write = cloudinit.init if kind == "init" else cloudinit.join
    configuration = (
        f"nodeRegistration:\n  name: '{NAME}'\n  kubeletExtraArgs:\n  - name: provider-id\n    value: {ID}\n"
    )
    data, instance = tmp_path / "user-data", tmp_path / "instance.json"
    data.write_text(write(EVERYTHING, FILES, configuration))
    instance.write_text(json.dumps(INSTANCE))
    shown = tool("devel", "render", "--instance-data", str(instance), str(data))
    assert shown.returncode == 0, shown.stderr
    made = tmp_path / "cloud-config"
    made.write_text(shown.stdout)
    judged = tool("schema", "--config-file", str(made))
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert "Valid cloud-config" in judged.stdout

    config: Any = yaml.safe_load(shown.stdout)
    files = {entry["path"]: entry for entry in config["write_files"]}
    assert files["/opt/c"]["content"] == FILES[-1].content.replace(NAME, "shop-1")
    assert files["/etc/kubernetes/pki/ca.key"]["permissions"] == "0600"
    assert files["/etc/kubernetes/pki/ca.key"]["content"] == FILES[0].content
    place = cloudinit.INIT_CONFIGURATION if kind == "init" else cloudinit.JOIN_CONFIGURATION
    told: Any = yaml.safe_load(files[place]["content"])
    assert told["nodeRegistration"] == {
        "name": "shop-1",
        "kubeletExtraArgs": [{"name": "provider-id", "value": "kvm://0b7c"}],
    }
    assert config["runcmd"][:3] == EVERYTHING["preKubeadmCommands"]
    assert config["runcmd"][3].startswith(f"kubeadm {kind} --config {place} --v 4 && echo success > /run/cluster-api/")
