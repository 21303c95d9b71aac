"""Elements of libvirt's XML, made and read. Everything is escaped by the library; nothing is pasted together."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Final

NAMESPACE: Final = "https://steelyard.dev/kvm/v1"
"""Of what is ours in the metadata of a domain or network."""
PREFIX: Final = "steelyard"

Element = ET.Element

ET.register_namespace(PREFIX, NAMESPACE)


def element(tag: str, *children: Element | str | None, **attributes: str | int | None) -> Element:
    """A child that is a string is the text; children and attributes that are None are left out.

    >>> shown(element("boot", dev="hd"))
    '<boot dev="hd" />'
    """
    made = ET.Element(tag, {name.rstrip("_"): str(value) for name, value in attributes.items() if value is not None})
    for child in children:
        if isinstance(child, str):
            made.text = child
        elif child is not None:
            made.append(child)
    return made


def ours(tag: str, **attributes: str) -> Element:
    return ET.Element(f"{{{NAMESPACE}}}{tag}", attributes)


def shown(root: Element) -> str:
    return ET.tostring(root, encoding="unicode")


def read(text: str) -> Element:
    """What libvirt says; not for documents that others wrote."""
    return ET.fromstring(text)  # noqa: S314 (from libvirt, which has parsed it itself)


def our_attributes(root: Element, tag: str) -> dict[str, str]:
    """Those of our element in the metadata; empty where there is none."""
    found = root.find(f"metadata/{{{NAMESPACE}}}{tag}")
    return dict(found.attrib) if found is not None else {}


def each(root: Element, path: str) -> Iterator[Element]:
    yield from root.iterfind(path)
