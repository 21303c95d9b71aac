"""Versions of what a node runs besides Kubernetes, and what a version of Kubernetes may look like."""

from __future__ import annotations

import re
from typing import Final

from steelyard.images.failing import BuildFailed

KUBERNETES: Final = "v1.34.4"
"""The version whose modules come with their checksums. For any other they are resolved while the image is built."""
CNI: Final = "v1.7.1"
FLANNEL: Final = "v0.27.4"
_VERSION: Final = re.compile(r"v1\.(\d{1,3})\.(\d{1,3})")
_OLDEST: Final = 31
"""Of Kubernetes' minor versions. Older ones want other container runtimes and other configuration."""


def kubernetes(given: str) -> str:
    """A version as in `v1.34.4`, checked: it becomes part of names, of URLs and of commands."""
    found = _VERSION.fullmatch(given)
    if found is None:
        raise BuildFailed(f'"{given}" is no version of Kubernetes: write it as v1.34.4')
    if int(found[1]) < _OLDEST:
        raise BuildFailed(f"images are built of Kubernetes v1.{_OLDEST} and newer, and {given} is older")
    return given


def staging(version: str) -> str:
    """The version under which Kubernetes publishes its libraries: v0.34.4 for v1.34.4."""
    return version.replace("v1.", "v0.", 1)


def component(tag: str) -> str:
    """The version of a program from the tag of its image: v3.6.5 for 3.6.5-0."""
    return "v" + tag.removeprefix("v").partition("-")[0]
