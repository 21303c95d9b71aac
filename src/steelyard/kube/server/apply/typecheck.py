"""Why an applied configuration cannot be read as an object of its kind, in upstream's words.

Apply judges what was sent by the kind's schema before anything else: fields that are not declared, values of a wrong
type, list items without a key or with one that another has.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final, cast

from steelyard.kube import fields
from steelyard.kube.objects import Object
from steelyard.kube.server.apply import fieldset, typed
from steelyard.kube.server.apply.shape import Shape

_SCALARS: Final[dict[str, tuple[type, ...]]] = {
    "any": (str, int, float, bool),
    "number": (int, float),
    "string": (str,),
    "boolean": (bool,),
}
_EXPONENT_FROM: Final = 6


def problems(shape: Shape, value: Any, path: str = "") -> list[str]:
    kind = value.__class__
    if value is None:
        return []
    if kind is dict and shape.is_map:
        return _in_map(shape, value, path)
    if kind is list and shape.is_list:
        return _in_list(shape, value, path)
    if kind in _SCALARS.get(shape.scalar, ()):
        return []
    return [f"{path}: {_mismatch(shape, value)}"]


def _mismatch(shape: Shape, value: Any) -> str:
    if shape.is_map:
        return f"expected map, got {_shown(value)}"
    match shape.scalar:
        case "":
            return f"expected list, got {_shown(value)}"
        case "number":
            return f"expected numeric (int or float), got {_type_name(value)}"
        case "string":
            return f"expected string, got &value.valueUnstructured{{Value:{_literal(value)}}}"
        case "boolean":
            return f"expected boolean, got {_shown(value)}"
        case _:
            return f"expected any scalar, got {_shown(value)}"


def _in_map(shape: Shape, value: Object, path: str) -> list[str]:
    element = shape.element
    found: list[str] = []
    for name, field in value.items():
        child = shape.declared(name) or element
        if child is None:
            return [*found, f"{path}.{name}: field not declared in schema"]
        if type(field) in (dict, list) or type(field) not in _SCALARS.get(child.scalar, ()):
            found += problems(child, field, f"{path}.{name}")
    return found


def _in_list(shape: Shape, items: list[Any], path: str) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()
    child = shape.item
    for index, item in enumerate(items):
        step = f"[{index}]"
        if shape.merges_list:
            element = typed.element_of(shape, item)
            if element is None:
                return [*found, f"{path}: element {index}: {_no_element(shape, item)}"]
            step = fieldset.text((element,))
            if element in seen:
                found.append(f"{path}: duplicate entries for key {step}")
            seen.add(element)
        found += problems(child, item, path + step)
    return found


def _no_element(shape: Shape, item: Any) -> str:
    if shape.list_type == "set":
        if isinstance(item, list):
            return "not supported: associative list with lists as elements"
        what = "an explicit null" if item is None else "a map type"
        return f"associative list without keys has an element that's {what}"
    if not isinstance(item, dict):
        return f"associative list with keys may not have {'a null element' if item is None else 'non-map elements'}"
    names = " ".join(map(fields.quote, shape.key_names))
    return (
        f"associative list with keys has an element that omits all key fields [{names}] "
        "(and doesn't have default values for any key fields)"
    )


def _shown(value: Any) -> str:
    """As Go prints (`%v`) the pointer to the structure that holds a decoded value."""
    return f"&{{{_plain(value)}}}"


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        entries = sorted(cast(Object, value).items())
        return f"map[{' '.join(f'{name}:{_plain(item)}' for name, item in entries)}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_plain, cast('list[Any]', value)))}]"
    if value is None:
        return "<nil>"
    return value if isinstance(value, str) else _literal(value)


def _literal(value: Any) -> str:
    """As Go writes a decoded value in its own syntax (`%#v`)."""
    if isinstance(value, dict):
        entries = sorted(cast(Object, value).items())
        listed = ", ".join(f"{fields.quote(name)}:{_literal(item)}" for name, item in entries)
        return f"map[string]interface {{}}{{{listed}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_literal, cast('list[Any]', value)))}}}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value)
    if value is None:
        return "interface {}(nil)"
    return fields.quote(value) if isinstance(value, str) else str(value)


def _float(value: float) -> str:
    """The shortest text that reads back the same; with an exponent from a million on, and below a ten-thousandth."""
    number = Decimal(repr(value)).normalize()
    power = number.adjusted()
    if -4 <= power < _EXPONENT_FROM:
        return f"{number:f}"
    return f"{number.scaleb(-power):f}e{power:+03d}"


def _type_name(value: Any) -> str:
    """As Go names the type of a decoded value (`%T`)."""
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    return "bool" if isinstance(value, bool) else "string"
