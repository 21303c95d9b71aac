"""What is in an image, written beside it as JSON: versions, checksums, packages, names of container images.

The same inputs give the same manifest, so there is no time and no path in it. `inputs` is a digest of everything that
the image is made of: a build that finds it in the manifest of an image that is whole has nothing to do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from steelyard import durable
from steelyard.images.failing import BuildFailed

_LARGEST = 4 << 20
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class OperatingSystem(_Part):
    name: str
    version: str
    """As in `12.15`."""
    kernel: str


class NodeProgram(_Part):
    version: str
    sha256: Sha256
    source: str
    """`release`, or the version of Go that built it."""


class PreloadedImage(_Part):
    name: str
    digest: str
    layer: str


class Manifest(_Part):
    name: str
    sha256: Sha256
    """Of the image's file."""
    size: int
    virtual_size: int
    inputs: Sha256
    kubernetes: str
    operating_system: OperatingSystem
    programs: dict[str, NodeProgram]
    plug_ins: dict[str, NodeProgram]
    images: tuple[PreloadedImage, ...]
    packages: dict[str, str]


def path_of(image: Path) -> Path:
    return image.with_suffix(".json")


def write(manifest: Manifest, path: Path) -> None:
    content = orjson.dumps(manifest.model_dump(by_alias=True), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    durable.write(path, content + b"\n")
    # No secret is in it, and whoever runs machines reads it.
    path.chmod(0o644)


def read(image: Path) -> Manifest | None:
    """None where there is none."""
    path = path_of(image)
    try:
        if path.stat().st_size > _LARGEST:
            raise BuildFailed(f"{path} is too large to be a manifest")
        return Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise BuildFailed(f"{path} is no manifest of an image: {place + ': ' if place else ''}{first['msg']}") from None
