"""Definitions of a machine's directory and of the disks in it."""

from __future__ import annotations

from typing import Literal

from steelyard.frozen import frozen
from steelyard.providers.kvm.documents import markup
from steelyard.providers.kvm.documents.markup import element


@frozen
class Volume:
    name: str
    size: int
    """Bytes."""
    format: Literal["qcow2", "raw"] = "qcow2"
    base: str = ""
    base_format: str = ""


def folder(name: str, uuid: str, path: str) -> str:
    """QEMU's user may go through it and list nothing."""
    return markup.shown(
        element(
            "pool",
            element("name", name),
            element("uuid", uuid),
            element("target", element("path", path), element("permissions", element("mode", "0711"))),
            type="dir",
        )
    )


def path_of(definition: str) -> str:
    return markup.read(definition).findtext("target/path") or ""


def volume(of: Volume) -> str:
    is_qcow2 = of.format == "qcow2"
    return markup.shown(
        element(
            "volume",
            element("name", of.name),
            element("capacity", str(of.size), unit="bytes"),
            # Raw ones would otherwise be written in full.
            None if is_qcow2 else element("allocation", "0", unit="bytes"),
            element(
                "target",
                element("format", type=of.format),
                element("permissions", element("mode", "0600")),
                element("compat", "1.1") if is_qcow2 else None,
            ),
            element("backingStore", element("path", of.base), element("format", type=of.base_format))
            if of.base
            else None,
        )
    )
