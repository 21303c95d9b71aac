"""What a node makes of what flannel writes: the configuration of the bridge plug-in."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard.images import node

SCRIPT = node.FILES / "usr/lib/steelyard/pod-network"
WRITTEN = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.3.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"


def run(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "subnet.env").write_text(text)
    command = [sys.executable, "-I", str(SCRIPT), str(tmp_path / "subnet.env"), str(tmp_path / "net.d/10.conflist")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def configured(tmp_path: Path, text: str) -> Any:
    done = run(tmp_path, text)
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in (tmp_path / "net.d").iterdir()] == ["10.conflist"]
    return json.loads((tmp_path / "net.d/10.conflist").read_text())


def test_pods_get_addresses_of_the_nodes_subnet(tmp_path: Path) -> None:
    bridge, ports = configured(tmp_path, WRITTEN)["plugins"]
    assert bridge["type"] == "bridge"
    assert bridge["mtu"] == 1450
    assert bridge["isDefaultGateway"] is True
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.244.3.0/24"}]]
    assert ports == {"type": "portmap", "capabilities": {"portMappings": True}}


@pytest.mark.parametrize(("says", "masks"), [("true", False), ("false", True)])
def test_addresses_are_hidden_once(tmp_path: Path, says: str, masks: bool) -> None:
    bridge = configured(tmp_path, WRITTEN.replace("IPMASQ=true", f"IPMASQ={says}"))["plugins"][0]
    assert bridge["ipMasq"] is masks


def test_a_network_of_both_families_has_a_range_of_each(tmp_path: Path) -> None:
    bridge = configured(tmp_path, f"{WRITTEN}FLANNEL_IPV6_SUBNET=2001:db8:42:3::1/64\n")["plugins"][0]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.244.3.0/24"}], [{"subnet": "2001:db8:42:3::/64"}]]


def test_a_change_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    configured(tmp_path, WRITTEN)
    bridge = configured(tmp_path, WRITTEN.replace("10.244.3.1", "10.244.4.1"))["plugins"][0]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.244.4.0/24"}]]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing yet"),
        pytest.param("FLANNEL_SUBNET=10.244.3.1/24\n", id="no MTU"),
        pytest.param(WRITTEN.replace("10.244.3.1/24", "$(touch /tmp/owned)"), id="a command"),
        pytest.param(WRITTEN.replace("1450", "1450; reboot"), id="more than a number"),
    ],
)
def test_what_flannel_does_not_write_changes_nothing(tmp_path: Path, text: str) -> None:
    done = run(tmp_path, text)
    assert done.returncode == 1
    assert "is not what flannel writes" in done.stderr
    assert not (tmp_path / "net.d").exists()


def test_the_script_runs_by_itself() -> None:
    assert SCRIPT.read_text().startswith("#!/usr/bin/python3 -I\n")
