"""Which versions of Kubernetes clusters may have: the platform's own choice out of what Steelyard can do.

    versions:
      refuseEnded: true
      infrastructures:
        kubevirt:
          image: registry.example.org/kubernetes:{version}
          offered:
            v1.34: {endOfLife: 2026-10-27}
            v1.34.2: {state: refused}

An infrastructure that is not listed offers everything that this version of Steelyard can do.
"""

import datetime
import re
from typing import Annotated, Any, Final, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from steelyard.api import versions
from steelyard.api.catalogue import Listing, State, minor_of
from steelyard.api.infrastructures import InfrastructureName
from steelyard.api.machineterms import IMAGE_PATTERN
from steelyard.settings.base import SettingsModel

_MINOR: Final = re.compile(versions.WITHOUT_PATCH)
_HOST_IMAGE: Final = re.compile(IMAGE_PATTERN)


def _listed(value: str) -> str:
    if _MINOR.fullmatch(value) or versions.is_offered(value):
        return versions.canonical(value)
    raise ValueError(
        f'"{value}" is no version from {versions.RANGE}: write one with its patch, such as v1.34.0, or v1.34 for all '
        "patches of it"
    )


def _day(value: Any) -> Any:
    """YAML reads a date as one."""
    return value.isoformat() if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime) else value


def _checked_day(value: str) -> str:
    try:
        return datetime.date.fromisoformat(value).isoformat()
    except ValueError:
        raise ValueError(f'must be a day such as 2027-02-28, not "{value}"') from None


VersionName = Annotated[str, AfterValidator(_listed)]
Day = Annotated[str, BeforeValidator(_day), AfterValidator(_checked_day)]


class Offered(SettingsModel):
    """A version, or all patches of a minor version."""

    image: Annotated[str, Field(max_length=500)] = Field(
        default="",
        description="What machines of it boot from. Default: the image of the infrastructure; simulated machines need "
        "none.",
    )
    end_of_life: Day | None = Field(default=None, description="The day after which it gets no more fixes.")
    state: State = Field(
        default="offered",
        description="offered: new claims may have it. ended: it gets no more fixes; claims may have it and are warned, "
        "unless refuseEnded is set. refused: no new claim may have it.",
    )


class Catalogue(SettingsModel):
    """The versions of one infrastructure."""

    image: Annotated[str, Field(max_length=500)] = Field(
        default="", description="What machines boot from; {version} stands for the version, as in v1.34.0."
    )
    built_in: bool = Field(
        default=True, description="Whether the versions that are built in are listed besides those of the file."
    )
    offered: dict[VersionName, Offered] = Field(
        default={},
        description="By version, v1.34.0, or by minor version, v1.34, for all its patches; the longer name goes first.",
    )

    def find(self, version: str) -> Offered | None:
        name = versions.canonical(version)
        found = self.offered.get(name) or self.offered.get(minor_of(name))
        if found is None:
            return None
        return found.model_copy(update={"image": (found.image or self.image).replace("{version}", name)})


_END_OF_LIFE: Final = {
    22: "2022-12-08", 23: "2023-02-28", 24: "2023-07-28", 25: "2023-10-28", 26: "2024-02-28", 27: "2024-07-16",
    28: "2024-10-22", 29: "2025-02-28", 30: "2025-07-15", 31: "2025-11-11", 32: "2026-02-28", 33: "2026-06-28",
    34: "2026-10-27", 35: "2027-02-28",
}  # fmt: skip
_LAST_ENDED: Final = 34
"""When this version of Steelyard was made."""


def _standing(minor: int) -> Offered:
    state: Literal["offered", "ended"] = "ended" if minor <= _LAST_ENDED else "offered"
    return Offered.known(end_of_life=_END_OF_LIFE[minor], state=state)


CONTAINER_DISK: Final = "quay.io/capk/ubuntu-2404-container-disk:{version}"
"""What machines on KubeVirt boot from where the platform file names nothing else."""
_MINORS: Final = range(versions.NEWEST_MINOR, versions.OLDEST_MINOR - 1, -1)
_WITH_IMAGES: Final = ("v1.35.0", "v1.34.0", "v1.33.0", "v1.32.1", "v1.31.0", "v1.30.0", "v1.29.0")
BUILT_IN: Final[dict[str, Catalogue]] = {
    # They need no image, so there is no reason to leave out a patch.
    "simulated": Catalogue.known(offered={f"v1.{minor}": _standing(minor) for minor in _MINORS}),
    "kubevirt": Catalogue.known(
        image=CONTAINER_DISK,
        offered={name: _standing(versions.parsed(name)[1]) for name in _WITH_IMAGES},
    ),
}
"""Every version that the documents of the platform print in a claim is here. Images of kvm machines are on their hosts,
so that only the platform file can know which there are."""


def _completed(given: Any) -> Any:
    """The built-in catalogues, with what the file says of them and of others."""
    if not isinstance(given, dict):
        return given
    result: dict[str, Any] = dict(BUILT_IN)
    for name, value in cast("dict[str, Any]", given).items():
        result[name] = _complete(BUILT_IN[name], cast("dict[str, Any]", value)) if _is_merged(name, value) else value
    return result


def _is_merged(name: str, given: Any) -> bool:
    return name in BUILT_IN and isinstance(given, dict)


def _complete(known: Catalogue, given: dict[str, Any]) -> dict[str, Any]:
    own = given.get("offered", {})
    is_without = given.get("builtIn", given.get("built_in")) is False
    if not isinstance(own, dict):
        return given
    named = {versions.canonical(str(name)): value for name, value in cast("dict[Any, Any]", own).items()}
    offered: dict[str, Any] = named if is_without else {**known.offered, **named}
    return {"image": known.image, **given, "offered": offered}


class Versions(SettingsModel):
    """Versions of Kubernetes. A claim for one that is not listed is refused with the nearest that is; one that has
    ended is pointed out. Clusters that have a version keep it, whatever the catalogue says later."""

    refuse_ended: bool = Field(
        default=False,
        description="Whether claims are refused that name a version which gets no more fixes. What an environment has "
        "is the platform file's own choice.",
    )
    infrastructures: dict[InfrastructureName, Catalogue] = Field(
        default=BUILT_IN,
        description="The catalogue of each infrastructure. What the file says is added to the built-in one. Without "
        f"one, an infrastructure offers {versions.RANGE}.",
    )

    @field_validator("infrastructures", mode="before")
    @classmethod
    def _infrastructures(cls, value: Any) -> Any:
        return _completed(value)

    @field_validator("infrastructures", mode="after")
    @classmethod
    def _not_empty(cls, value: dict[str, Catalogue]) -> dict[str, Catalogue]:
        for name, catalogue in value.items():
            if not any(each.state != "refused" for each in catalogue.offered.values()):
                raise ValueError(f"{name}.offered: no version is left; list at least one that is not refused")
        return value

    @field_validator("infrastructures", mode="after")
    @classmethod
    def _found_on_hosts(cls, value: dict[str, Catalogue]) -> dict[str, Catalogue]:
        """What a catalogue calls an image of kvm machines goes into their templates as it stands."""
        catalogue = value.get("kvm", Catalogue())
        named = {"image": catalogue.image.replace("{version}", "v1.34.0")}
        named |= {f"offered.{version}.image": each.image for version, each in catalogue.offered.items()}
        for place, image in named.items():
            if image and not _HOST_IMAGE.fullmatch(image):
                raise ValueError(
                    f"kvm.{place}: {image} is neither the name of an image such as node-v1.34.0.qcow2 nor the path of "
                    "one on hosts; @sha256:<checksum> may follow"
                )
        return value

    def find(self, infrastructure: str, version: str) -> Offered | None:
        """How a version stands there, with the image of its machines; None where it is not listed."""
        catalogue = self.infrastructures.get(infrastructure)
        if catalogue is None:
            return Offered() if versions.is_offered(version) else None
        return catalogue.find(version)

    def problem(self, infrastructure: str, version: str) -> str:
        """Why no new claim may have the version, and which is nearest; empty if one may."""
        listing = self.listings().get(infrastructure)
        return listing.problem(infrastructure, version) if listing is not None else ""

    def listings(self) -> dict[str, Listing]:
        """As admission judges them."""
        return {
            name: Listing({version: each.state for version, each in catalogue.offered.items()}, self.refuse_ended)
            for name, catalogue in self.infrastructures.items()
        }
