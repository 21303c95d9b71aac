"""Reads bodies of type `application/vnd.kubernetes.protobuf`, which is how clients written in Go send built-in kinds.

    decode(b"k8s\\x00...") == {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"key": "dmFs"}}

The object comes out as upstream's own JSON of it: what Go leaves out when empty is left out, what it writes as null or
zero is there, structures that are not pointers are always there. Message decoders are made from the type tables on
first use and shared by the process.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

from steelyard.kube import errors
from steelyard.kube.builtin import special, tables, types, wire
from steelyard.kube.objects import Object

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
PREFIX: Final = b"k8s\x00"

Read: TypeAlias = Callable[[bytes, int, int], Any]
_SINGLE, _LIST, _MAP, _INLINE = range(4)
_ZERO: Final[dict[str, Any]] = {"string": "", "bool": False, "int32": 0, "int64": 0, "double": 0.0, "bytes": None}
_CONVERT: Final[dict[str, Callable[[int], Any]]] = {"bool": bool, "int32": wire.signed32, "int64": wire.signed64}


def decode(body: bytes) -> Object:
    """BadRequest, with what is wrong and where, for anything that is not a built-in kind's message in its envelope."""
    if not body.startswith(PREFIX):
        raise errors.BadRequest(
            "the body is not a Kubernetes protobuf message: it does not begin with the prefix k8s\\0"
        )
    api_version = kind = ""
    start = end = len(body)
    try:
        for number, _, first, last in wire.fields(body, len(PREFIX), len(body)):
            if number == 1:
                api_version, kind = _type_meta(body, first, last)
            elif number == 2:
                start, end = first, last
        return _decode(api_version, kind, body, start, end)
    except wire.Corrupt as error:
        raise errors.BadRequest(f"the protobuf body ({_gvk(api_version, kind)}) cannot be read: {error}") from None
    except RecursionError:
        raise errors.BadRequest(f"the protobuf body ({_gvk(api_version, kind)}) is nested too deeply") from None


def _gvk(api_version: str, kind: str) -> str:
    return f"{api_version}, Kind={kind}"


def _type_meta(body: bytes, start: int, end: int) -> tuple[str, str]:
    found = {number: wire.text(body, first, last) for number, _, first, last in wire.fields(body, start, end)}
    return found.get(1, ""), found.get(2, "")


def _decode(api_version: str, kind: str, body: bytes, start: int, end: int) -> Object:
    group, _, version = api_version.rpartition("/")
    name = tables.type_name(group, version, kind)
    if name is None or "kind" not in types.get(name).fields:
        raise errors.BadRequest(f'no kind "{kind}" is registered for version "{api_version}" in protobuf')
    return {"kind": kind, "apiVersion": api_version, **message(name).read(body, start, end)}


class Slot:
    """How one field of a message is read, and what stands in JSON where it is absent."""

    __slots__ = ("absent", "convert", "drop_empty", "name", "read", "shape", "value_absent")

    def __init__(self, field: types.Field) -> None:
        self.name = field.name
        self.shape = _LIST if field.repeated else _MAP if field.mapped else _SINGLE
        self.convert = _CONVERT.get(field.base)
        self.read = reader(field.base)
        zero = _zero(field.base)
        self.value_absent: Callable[[], Any] = zero
        is_nil_by_default = field.pointer or field.repeated or field.mapped or field.base == "bytes"
        is_plain = field.base in types.SCALARS and not field.pointer
        self.drop_empty = field.omit_zero or (is_plain and self.shape == _SINGLE and not field.always)
        self.absent: Callable[[], Any] | None
        if is_nil_by_default:
            self.absent = _null if field.always else None
        elif field.always:
            self.absent = zero
        else:
            self.absent = None if field.base in types.SCALARS or field.omit_zero else zero


class Inline(Slot):
    """A message of its own whose fields JSON shows among those of the message around it."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__(types.Field("", name, 0))
        self.shape = _INLINE


class Message:
    """Decoder of one type. Slots are made when it is first used, so that types may refer to each other."""

    __slots__ = ("inlined", "name", "slots", "tags")

    def __init__(self, name: str) -> None:
        self.name = name
        self.tags: dict[int, Slot] = {}
        self.slots: tuple[Slot, ...] | None = None
        self.inlined: tuple[Inline, ...] = ()

    def _make(self) -> tuple[Slot, ...]:
        kind = types.get(self.name)
        slots: list[Slot] = []
        for field in kind.fields.values():
            if field.number:
                slot = Slot(field)
                slots.append(slot)
                self.tags[field.number << 3 | _wire_type(field)] = slot
                if field.repeated and slot.convert is not None:
                    self.tags[field.number << 3 | wire.LENGTH] = slot
        inlined: list[Inline] = []
        for name, number in kind.inline:
            inlined.append(Inline(name))
            self.tags[number << 3 | wire.LENGTH] = inlined[-1]
        self.inlined = tuple(inlined)
        self.slots = tuple(slots)
        return self.slots

    def read(self, data: bytes, position: int, end: int) -> Object:
        slots = self.slots or self._make()
        found: dict[Slot, Any] = {}
        tags = self.tags
        slot = None
        try:
            while position < end:
                slot = None
                tag = data[position]
                position += 1
                if tag >= 0x80:
                    tag, position = wire.varint(data, position - 1, end)
                slot = tags.get(tag)
                if slot is None:
                    position = self._skip(data, position, end, tag)
                elif tag & 7 == wire.VARINT:
                    value, position = wire.varint(data, position, end)
                    _put(found, slot, cast("Callable[[int], Any]", slot.convert)(value))
                elif tag & 7 == wire.FIXED64:
                    after = wire.skip(data, position, end, wire.FIXED64)
                    _put(found, slot, _finite(wire.double(data, position)))
                    position = after
                else:
                    start, position = wire.extent(data, position, end)
                    if slot.convert is not None and slot.shape == _LIST:
                        _put_packed(found, slot, data, start, position)
                    elif slot.shape == _MAP:
                        key, value = _entry(slot, data, start, position)
                        found.setdefault(slot, {})[key] = value
                    else:
                        _put(found, slot, slot.read(data, start, position))
        except wire.Corrupt as error:
            if slot is not None and slot.name:
                error.path.insert(0, slot.name)
            raise
        return self._json(slots, found)

    def _skip(self, data: bytes, position: int, end: int, tag: int) -> int:
        if any(known >> 3 == tag >> 3 for known in self.tags):
            raise wire.Corrupt(f"field {tag >> 3} of {self.name} has wire type {tag & 7}")
        if tag >> 3 == 0:
            raise wire.Corrupt(f"{self.name} has a field with number 0")
        return wire.skip(data, position, end, tag & 7)

    def _json(self, slots: tuple[Slot, ...], found: dict[Slot, Any]) -> Object:
        out: Object = {}
        for slot in slots:
            if slot in found:
                value = found[slot]
                if value or not slot.drop_empty:
                    out[slot.name] = value
            elif slot.absent is not None:
                out[slot.name] = slot.absent()
        for inline in self.inlined:
            out.update(found[inline] if inline in found else inline.value_absent())
        return out


_messages: Final[dict[str, Message]] = {}


def message(name: str) -> Message:
    return _messages.get(name) or _messages.setdefault(name, Message(name))


def reader(base: str) -> Read:
    """What reads a length-delimited value of this type."""
    if base in special.READERS:
        return special.READERS[base]
    if base in special.SCHEMA_READERS:
        return special.SCHEMA_READERS[base](message(special.JSON_SCHEMA).read)
    if base in types.SCALARS:
        return special.not_length_delimited
    return message(base).read


def _wire_type(field: types.Field) -> int:
    if field.mapped:
        return wire.LENGTH
    return wire.VARINT if field.base in _CONVERT else wire.FIXED64 if field.base == "double" else wire.LENGTH


def _null() -> None:
    return None


def _zero(base: str) -> Callable[[], Any]:
    """Makes the JSON of a value of this type that nobody has set."""
    if base in types.SCALARS:
        value = _ZERO[base]
        return lambda: value
    read = reader(base)
    return lambda: read(b"", 0, 0)


def _put(found: dict[Slot, Any], slot: Slot, value: Any) -> None:
    if slot.shape == _LIST:
        found.setdefault(slot, []).append(value)
    else:
        found[slot] = value


def _put_packed(found: dict[Slot, Any], slot: Slot, data: bytes, position: int, end: int) -> None:
    """Numbers of a list may also come packed in one value; upstream's own encoder does not do it, others may."""
    convert = cast("Callable[[int], Any]", slot.convert)
    while position < end:
        value, position = wire.varint(data, position, end)
        _put(found, slot, convert(value))


def _entry(slot: Slot, data: bytes, start: int, end: int) -> tuple[str, Any]:
    key, value, has_value = "", None, False
    for number, integer, first, last in wire.fields(data, start, end):
        if number == 1:
            key = wire.text(data, first, last)
        elif number == 2:
            has_value = True
            value = slot.convert(integer) if slot.convert is not None else slot.read(data, first, last)
    return key, value if has_value else slot.value_absent()


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise wire.Corrupt("a number is not finite, which JSON cannot say")
    return int(value) if value.is_integer() and abs(value) < 1e15 else value
