"""A VirtualCluster from the command line, on simulated machines: made, looked at, used, changed, taken away."""

from __future__ import annotations

import pytest
import yaml

from steelyard.cli.exits import Exit
from tests.cli.terminal import Terminal


def test_a_virtual_cluster_is_made_shown_and_deleted(terminal: Terminal) -> None:
    made = terminal.run("create", "virtual-cluster", "small", "--environment", "dev", "-n", "virtual", "--wait")
    assert (made.code, made.out) == (
        Exit.OK,
        "virtualcluster.compute.steelyard.dev/small created in namespace virtual\n",
    )

    headings, row = terminal.run("get", "virtual-clusters", "-n", "virtual").out.splitlines()
    assert headings.split() == ["NAME", "ENVIRONMENT", "VERSION", "SERVERS", "STATE", "READY", "AGE"]
    assert row.split()[:-1] == ["small", "dev", "v1.32.1", "1/1", "Ready", "True"]

    described = terminal.run("describe", "virtual-cluster/small", "-n", "virtual").out
    assert "VirtualCluster virtual/small: Ready" in described
    assert "dev on simulated machines, Kubernetes v1.32.1" in described
    assert "control plane: 1 of 1 ready" in described
    assert "workers" not in described

    config = yaml.safe_load(terminal.run("kubeconfig", "small", "-n", "virtual").out)
    assert config["clusters"][0]["cluster"]["server"].startswith("https://")

    assert terminal.run("delete", "virtual-cluster", "small", "-n", "virtual", "--yes").code == Exit.OK
    assert terminal.run("get", "virtual-cluster", "small", "-n", "virtual").code != Exit.OK


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        pytest.param(
            ("--k8s-version", "1.99.0"),
            '"1.99.0" is not offered: clusters are made of Kubernetes',
            id="a version that there is not",
        ),
        pytest.param(
            ("--k8s-version", "1.30.7", "--infrastructure", "kubevirt"),
            "spec.parameters.k8sVersion: v1.30.7 is not offered on kubevirt; the nearest is v1.30.0",
            id="a version that the catalogue does not list",
        ),
        pytest.param(("--ingress-class", "caddy"), "ingressClass", id="an ingress controller that nobody installs"),
        pytest.param(("--high-availability", "maybe"), "highAvailability", id="neither yes nor no"),
    ],
)
def test_mistakes_are_told_when_it_is_written(terminal: Terminal, flags: tuple[str, ...], told: str) -> None:
    done = terminal.run("create", "virtual-cluster", "wrong", "--environment", "dev", *flags)

    assert done.code != Exit.OK
    assert told in done.err
