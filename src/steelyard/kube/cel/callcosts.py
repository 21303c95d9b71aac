"""What calls of functions cost at most, without their arguments, and how large their results are.

The figures are upstream's; a function that is not spoken of here takes one unit and says nothing of its result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from steelyard.frozen import frozen
from steelyard.kube.cel.functions import Overload
from steelyard.kube.cel.sizes import MOST, Size, add, multiply, scaled
from steelyard.kube.cel.types import Type

_TRAVERSAL: Final = 0.1
_PATTERN: Final = 0.25
_FORMAT_PATTERN: Final = 128
_LARGEST_FORMAT: Final = 64
_ADDRESS: Final = 16
Estimate = tuple[int, Size | None]


@frozen
class Argument:
    type: Type
    size: Size
    element: int
    """The size of the largest entry of a list that a schema describes."""
    literal: Any = None


def estimate(function: str, overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate:
    special = _SPECIAL.get(function)
    found = special(overload, target, arguments) if special is not None else None
    return found if found is not None else (1, None)


_Estimator = Callable[[Overload, Argument | None, Sequence[Argument]], Estimate | None]


def _traversed(size: Size, factor: float = _TRAVERSAL) -> int:
    return scaled(size.high, factor)


def _list_function(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del overload, arguments
    if target is None:
        return None
    if not target.type.parameters:
        return _traversed(target.size), None
    kind = target.type.parameters[0].kind
    each = add(1, scaled(target.element, _TRAVERSAL)) if kind in ("string", "bytes") else 1
    return multiply(target.size.high, each), None


def _of_target(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del overload, arguments
    return None if target is None else (_traversed(target.size), target.size)


def _of_argument(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del overload, target
    return (_traversed(arguments[0].size), None) if arguments else None


def _kept_argument(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del overload, target
    return (_traversed(arguments[0].size), arguments[0].size) if len(arguments) == 1 else None


def _canonical(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del overload, target
    return _traversed(arguments[0].size, 2 * _TRAVERSAL), None


def _ip(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    return (1, None) if target is not None else _of_argument(overload, target, arguments)


def _replace(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del overload
    if target is None or len(arguments) < 2:
        return None
    size, old, new = target.size, arguments[0].size, arguments[1].size
    low_count = low_kept = high_count = high_kept = 0
    if old.low == 0:
        high_count, high_kept = add(size.high, 1), size.high
    elif new.high <= old.low:
        high_kept = size.high
    else:
        high_count = math.ceil(size.high / old.low)
    if old.high == 0:
        low_count, low_kept = add(size.low, 1), size.low
    elif old.high <= new.low:
        low_kept = size.low
    else:
        low_count = math.ceil(size.low / old.high)
    result = Size(low_count, high_count).times(new).plus(Size(low_kept, high_kept))
    return _traversed(size, 2 * _TRAVERSAL), result


def _split(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del overload
    if target is None:
        return None
    most = target.size.high
    if len(arguments) > 1 and isinstance(arguments[1].literal, int):
        most = arguments[1].literal % (1 << 64)
    return _traversed(target.size, 2 * _TRAVERSAL), Size(0, most)


def _join(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del overload
    if target is None:
        return None
    size = target.size.times(Size(0, target.element)) if target.type.parameters else Size(0, 0)
    if arguments:
        between = Size(max(0, target.size.low - 1), max(0, target.size.high - 1))
        size = size.plus(arguments[0].size.times(between))
    return _traversed(size), size


def _matched(text: Size, pattern: Size) -> int:
    return multiply(scaled(add(text.high, 1), _TRAVERSAL), scaled(pattern.high, _PATTERN))


def _find(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del overload
    if target is None or not arguments:
        return None
    return _matched(target.size, arguments[0].size), Size(0, target.size.high)


def _matches(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del overload
    return None if target is None else (_matched(target.size, arguments[0].size), None)


def _contains_ip(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del target
    cost = scaled(2 * _ADDRESS, _TRAVERSAL)
    return _with_parsing(cost, overload, arguments), None


def _contains_cidr(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del target
    cost = scaled(2 * _ADDRESS, _TRAVERSAL) + scaled(_ADDRESS, _TRAVERSAL) + 1
    return _with_parsing(cost, overload, arguments), None


def _with_parsing(cost: int, overload: Overload, arguments: Sequence[Argument]) -> int:
    return add(cost, _traversed(arguments[0].size)) if overload.parameters[-1].kind == "string" else cost


def _validate(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del overload, target
    return scaled(_traversed(arguments[0].size), _FORMAT_PATTERN * _PATTERN), None


def _contains(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del overload
    if target is None:
        return None
    return multiply(_traversed(target.size), _traversed(arguments[0].size)), None


def _in(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del target
    return (arguments[1].size.high, None) if overload.parameters[1].kind == "list" else None


def _add(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del target
    kind = overload.parameters[0].kind
    if kind not in ("string", "bytes", "list"):
        return None
    size = arguments[0].size.plus(arguments[1].size)
    return (1 if kind == "list" else _traversed(size)), size


def _compared(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    """Of an ordering: only texts take longer than a unit."""
    if overload.parameters[0].kind not in ("string", "bytes"):
        return None
    return _equal(overload, target, arguments)


def _equal(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del overload, target
    return scaled(min(arguments[0].size.high, arguments[1].size.high), _TRAVERSAL), None


def _same(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    """`==`, which knows Kubernetes' own types apart."""
    name, other = arguments[0].type.name, arguments[1].type.name
    if arguments[0].type.kind == "opaque" and name == other:
        if name == "kubernetes.NamedFormat":
            return scaled(_LARGEST_FORMAT, _TRAVERSAL), None
        if name == "kubernetes.URL":
            return scaled(arguments[1].size.high if arguments[1].size.high < MOST else 1, _TRAVERSAL), None
        return 1, None
    return _equal(overload, target, arguments)


def _bytes(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del target
    if overload.parameters[0].kind != "string":
        return None
    size = arguments[0].size
    return _traversed(size), Size(size.low, min(MOST, size.high * 4))


def _string(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del target
    if overload.parameters[0].kind != "bytes":
        return None
    size = arguments[0].size
    return _traversed(size), Size(size.low // 4, size.high)


def _format(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    del overload, arguments
    return None if target is None else (_traversed(target.size), None)


def _set_function(factor: float) -> _Estimator:
    def of_sets(overload: Overload, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
        del overload, target
        return add(scaled(arguments[0].size.times(arguments[1].size).high, factor), 1), None

    return of_sets


_SPECIAL: Final[dict[str, _Estimator]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _list_function),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _of_target),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _of_argument),
    **dict.fromkeys(("url", "jsonpatch.escapeKey"), _kept_argument),
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("startsWith", "endsWith"), _of_argument),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _compared),
    "ip": _ip,
    "ip.isCanonical": _canonical,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "matches": _matches,
    "contains": _contains,
    "validate": _validate,
    "@in": _in,
    "_+_": _add,
    "_==_": _same,
    "_!=_": _equal,
    "bytes": _bytes,
    "string": _string,
    "format": _format,
    "sets.contains": _set_function(1),
    "sets.intersects": _set_function(1),
    "sets.equivalent": _set_function(2),
}
