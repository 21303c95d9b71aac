"""Which versions of Kubernetes a platform offers: what is built in, and what the platform file makes of it."""

from __future__ import annotations

import datetime

import pytest
import yaml

from steelyard import settings
from steelyard.api import versions
from steelyard.cli import checks
from steelyard.settings import Platform, SettingsError


@pytest.mark.parametrize("version", ["v1.32.1", "1.30.0", "v1.29.0", "v1.30.0", "v1.31.0", "v1.33.0", "v1.35.0"])
@pytest.mark.parametrize("infrastructure", ["simulated", "kubevirt"])
def test_what_the_documents_print_is_offered(infrastructure: str, version: str) -> None:
    found = Platform().versions.find(infrastructure, version)
    assert found is not None
    assert found.state in ("offered", "ended")
    assert Platform().versions.problem(infrastructure, version) == ""
    image = f"quay.io/capk/ubuntu-2404-container-disk:{versions.canonical(version)}"
    assert found.image == ("" if infrastructure == "simulated" else image)


@pytest.mark.parametrize(
    ("file", "infrastructure", "version", "said"),
    [
        pytest.param("", "simulated", "v1.34.17", "", id="any patch where no image is needed"),
        pytest.param("", "paper", "v1.22.3", "", id="an infrastructure without a catalogue"),
        pytest.param(
            "",
            "kubevirt",
            "1.34.2",
            "v1.34.2 is not offered on kubevirt; the nearest is v1.34.0",
            id="a patch without an image",
        ),
        pytest.param(
            "", "kubevirt", "v1.25.0", "v1.25.0 is not offered on kubevirt; the nearest is v1.29.0", id="too old"
        ),
        pytest.param(
            "versions: {refuseEnded: true}",
            "kubevirt",
            "v1.31.0",
            "v1.31.0 gets no more fixes, and this platform refuses that on kubevirt; the nearest is v1.35.0",
            id="ended",
        ),
        pytest.param(
            "versions: {infrastructures: {simulated: {offered: {v1.34.2: {state: refused}}}}}",
            "simulated",
            "v1.34.2",
            "v1.34.2 is refused by this platform on simulated; the nearest is v1.34.0",
            id="one patch is refused",
        ),
        pytest.param(
            "versions: {infrastructures: {kubevirt: {offered: {'1.34.2': {}}}}}", "kubevirt", "v1.34.2", "", id="added"
        ),
        pytest.param(
            "versions: {infrastructures: {kubevirt: {builtIn: false, offered: {v1.35: {image: mine}}}}}",
            "kubevirt",
            "v1.32.1",
            "v1.32.1 is not offered on kubevirt; the nearest is v1.35.0",
            id="only those of the file",
        ),
    ],
)
def test_a_version_is_judged_with_the_nearest_one(file: str, infrastructure: str, version: str, said: str) -> None:
    assert settings.parse(file).versions.problem(infrastructure, version) == said


def test_an_image_is_that_of_the_version_else_that_of_the_infrastructure() -> None:
    catalogue = settings.parse(
        "versions:\n  infrastructures:\n    kubevirt:\n      image: reg/k8s:{version}\n      offered:\n"
        "        v1.34: {endOfLife: 2026-10-27}\n        v1.34.2: {image: 'special'}\n"
    ).versions
    for version, image in (("1.34.5", "reg/k8s:v1.34.5"), ("v1.34.2", "special"), ("v1.32.1", "reg/k8s:v1.32.1")):
        found = catalogue.find("kubevirt", version)
        assert found is not None
        assert found.image == image
    found = catalogue.find("kubevirt", "v1.34.5")
    assert found is not None
    assert found.end_of_life == "2026-10-27"


@pytest.mark.parametrize(
    ("file", "said"),
    [
        pytest.param(
            "versions: {infrastructures: {simulated: {offered: {v1.21.2: {}}}}}",
            '"v1.21.2" is no version from v1.22 to v1.35: write one with its patch, such as v1.34.0, or v1.34',
            id="a version that Steelyard cannot make",
        ),
        pytest.param(
            "versions: {infrastructures: {simulated: {offered: {v1.34: {endOfLife: soon}}}}}",
            'must be a day such as 2027-02-28, not "soon"',
            id="no day",
        ),
        pytest.param(
            "versions: {infrastructures: {simulated: {offered: {v1.34: {stat: ended}}}}}",
            "did you mean state?",
            id="unknown key",
        ),
        pytest.param(
            "versions: {infrastructures: {simulated: {builtIn: false}}}",
            "simulated.offered: no version is left",
            id="nothing left",
        ),
        pytest.param(
            "versions: {infrastructures: {simulated: {offered: {v1.32: {state: refused}}}}}",
            "environment dev has a version that is not offered: v1.32.1 is refused by this platform on simulated; the "
            "nearest is v1.33.0",
            id="an environment has it",
        ),
    ],
)
def test_a_mistake_in_the_catalogue_is_told(file: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings.parse(file)
    assert said in str(caught.value)


def test_the_catalogue_survives_being_remembered() -> None:
    platform = settings.parse("versions: {infrastructures: {kubevirt: {builtIn: false, offered: {v1.35.1: {}}}}}")
    again = settings.parse(yaml.safe_dump(platform.model_dump(mode="json", by_alias=True)))
    assert again == platform


def test_doctor_names_the_environments_whose_version_has_ended() -> None:
    file = "\n".join(f"  {name}: {{kubernetesVersion: v1.35.0}}" for name in Platform().environments if name != "uat")
    platform = settings.parse(f"environments:\n{file}\n  uat: {{kubernetesVersion: v1.34.1}}")
    [found] = checks.ended_versions(platform, datetime.date(2026, 11, 1))
    assert found.level == "note"
    assert "v1.34.1 gets no more fixes since 2026-10-27; it is the version of uat. " in found.text
    later = list(checks.ended_versions(platform, datetime.date(2027, 3, 1)))
    assert len(later) == 2, "what the catalogue calls offered, and the calendar does not"
