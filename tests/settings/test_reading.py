"""Finding the platform file, and what is said about a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard import settings
from steelyard.settings import Platform, SettingsError


def problems(text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        settings.parse(text, "platform.yaml")
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "domain: a.example\n\n\nenvironments:\n  dev:\n    cpuCores: 2\n    wokerReplicas: 3\n",
            "platform.yaml:7: unknown key environments.dev.wokerReplicas; did you mean workerReplicas?",
            id="misspelt key",
        ),
        pytest.param(
            "environments: {Production: {}}",
            "platform.yaml:1: environments: Production is none of the built-in ones: did you mean production? For one",
            id="wrong case",
        ),
        pytest.param(
            "environments:\n  dev:\n    worker_replicas: 3",
            "platform.yaml:3: unknown key environments.dev.worker_replicas; did you mean workerReplicas?",
            id="Python's spelling",
        ),
        pytest.param(
            "xyzzy: 1",
            "platform.yaml:1: unknown key xyzzy; valid here: domain, infrastructure, environments, previews, "
            "versions, clusterNetwork, networks, integrations, simulated",
            id="nothing near",
        ),
        pytest.param(
            "infrastructure: simulatd",
            "platform.yaml:1: infrastructure: this version of Steelyard cannot make machines of simulatd; "
            "did you mean simulated?",
            id="misspelt value",
        ),
        pytest.param(
            "environments:\n  dev:\n    controlPlaneReplicas: 2",
            "platform.yaml:3: environments.dev.controlPlaneReplicas: must be one of 1, 3, not 2",
            id="value outside the enumeration",
        ),
        pytest.param(
            'environments:\n  dev:\n    workerReplicas: "3"',
            'platform.yaml:3: environments.dev.workerReplicas: must be a whole number, not "3"',
            id="quoted number",
        ),
        pytest.param(
            "environments:\n  dev:\n    workerReplicas: 101",
            "platform.yaml:3: environments.dev.workerReplicas: must be at most 100, not 101",
            id="too many",
        ),
        pytest.param(
            "environments:\n  dev:\n    workerReplicas: yes",
            "platform.yaml:3: environments.dev.workerReplicas: must be a whole number, not true",
            id="a boolean is no number",
        ),
        pytest.param(
            "infrastructure: metal3",
            "platform.yaml:1: infrastructure: this version of Steelyard cannot make machines of metal3; "
            "it offers: simulated",
            id="infrastructure of a later version",
        ),
        pytest.param(
            "environments:\n  dev:\n    kubernetesVersion: v1.99.0",
            'platform.yaml:3: environments.dev.kubernetesVersion: "v1.99.0" is not offered: clusters are '
            "made of Kubernetes v1.22 to v1.35, written as v1.34.0; the nearest is v1.35.0",
            id="version that does not exist",
        ),
        pytest.param(
            "environments:\n  dev:\n    kubernetesVersion: 1.32",
            "platform.yaml:3: environments.dev.kubernetesVersion: must be text, not 1.32; put it in quotes",
            id="version read as a number",
        ),
        pytest.param(
            "environments:\n  uat:\n    cpuCores: 1\n    diskGb: 50\n    cpuCores: 2",
            "platform.yaml:5: duplicate key environments.uat.cpuCores; it stands on line 3 already",
            id="duplicate key",
        ),
        pytest.param(
            "integrations:\n  kargo: true",
            "platform.yaml:2: integrations.kargo: must be a mapping of keys to values, not true",
            id="value in place of a section",
        ),
        pytest.param(
            "clusterNetwork:\n  pods: 10.1.0.0/16\n  services: 10.1.2.0/24",
            "platform.yaml:3: clusterNetwork.services: overlaps with the pods' addresses, 10.1.0.0/16",
            id="overlapping networks",
        ),
        pytest.param(
            "networks: {pods: {pools: [10.0.0.0/20]}}",
            "networks.pods: 10.0.0.0/20 has no room for a range of /16; make prefix larger",
            id="a pool that is too small",
        ),
        pytest.param(
            "networks: {pods: {pools: [10.0.0.0/8]}, services: {pools: [10.4.0.0/16]}}",
            "the pools of pods and services overlap: 10.0.0.0/8 and 10.4.0.0/16",
            id="overlapping pools",
        ),
        pytest.param(
            "networks: {reserved: [10.96.0.0/12, 10.0.0.0/9]}",
            "reserved: 10.0.0.0/9 overlaps with clusterNetwork.services, 10.95.0.0/16, which clusters have",
            id="reserved for others",
        ),
        pytest.param(
            "simulated: {bootSeconds: -1}",
            "platform.yaml:1: simulated.bootSeconds: must be at least 0.0, not -1",
            id="negative delay",
        ),
        pytest.param("domain: nodots", 'platform.yaml:1: domain: "nodots" does not match', id="domain without a dot"),
        pytest.param("domain:", "platform.yaml:1: domain: must be text, not nothing", id="empty value"),
        pytest.param("- a", "platform.yaml:1: must be a mapping of keys to values", id="a list"),
        pytest.param("domain: a: b", "platform.yaml:1: not valid YAML: mapping values are not", id="syntax error"),
        pytest.param("a: 1\nb: [\n", "not valid YAML: while parsing a flow node", id="open bracket"),
        pytest.param("domain: a.b\n---\ndomain: c.d", "platform.yaml:2: not valid YAML: expected a single", id="two"),
        pytest.param("domain: !!python/name:os.system x", "not valid YAML: could not determine", id="no code is run"),
        pytest.param("domain: &a {b: *a}", "not valid YAML: found unconstructable recursive", id="endless"),
        pytest.param("domain: \0", "platform.yaml: not valid YAML: unacceptable character", id="control character"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_would_be_right(text: str, said: str) -> None:
    assert len(problems(text)) == 1
    assert said in problems(text)[0]


def test_all_mistakes_are_reported_at_once_in_order() -> None:
    found = problems("domian: x\ninfrastructure: vmware\nenvironments:\n  dev: {cpuCores: 0}\n")

    assert [line.split(":")[1] for line in found] == ["1", "2", "4"]


def test_a_partial_environment_keeps_the_rest_of_its_defaults() -> None:
    platform = settings.parse("environments: {preprod: {workerReplicas: 7}}")

    assert platform.environments["preprod"].worker_replicas == 7
    assert platform.environments["preprod"].cpu_cores == 24
    assert platform.environments["dev"] == Platform().environments["dev"]


@pytest.mark.parametrize("text", ["", "# nothing\n", "environments:\nsimulated:\n", "environments: {dev: }"])
def test_what_is_left_empty_is_at_its_default(text: str) -> None:
    assert settings.parse(text) == Platform()


def test_anchors_and_merge_keys_work() -> None:
    platform = settings.parse("environments: {dev: &dev {workerReplicas: 4}, uat: {<<: *dev, cpuCores: 2}}")

    assert (platform.environments["uat"].worker_replicas, platform.environments["uat"].cpu_cores) == (4, 2)


def test_a_named_file_comes_before_the_variable_and_the_working_directory(tmp_path: Path) -> None:
    named, variable, here = tmp_path / "named.yaml", tmp_path / "variable.yaml", tmp_path / "platform.yaml"
    for path, domain in ((named, "named"), (variable, "variable"), (here, "here")):
        path.write_text(f"domain: {domain}.example\n")
    environ = {"STEELYARD_PLATFORM": str(variable)}

    assert settings.read(named, environ=environ, directory=tmp_path).domain == "named.example"
    assert settings.read(environ=environ, directory=tmp_path).domain == "variable.example"
    assert settings.read(environ={}, directory=tmp_path).domain == "here.example"


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert settings.find(environ={}, directory=tmp_path) is None
    assert settings.read(environ={}, directory=tmp_path) == Platform()


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"missing\.yaml: cannot be read: No such file"):
        settings.read(environ={"STEELYARD_PLATFORM": str(tmp_path / "missing.yaml")}, directory=tmp_path)


def test_a_file_that_is_not_text_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "platform.yaml"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(SettingsError, match="is not UTF-8 text"):
        settings.load(path)
