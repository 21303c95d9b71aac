"""Whether an observed object holds what is desired. Under server-side apply it may hold more, set by others."""

from __future__ import annotations

from typing import Any, cast

from steelyard.kube import objects
from steelyard.kube.objects import Object


def covers(have: Any, want: Any) -> bool:
    """Whether everything wanted is there. Further fields, and further objects in a list, belong to others.

    >>> covers({"a": 1, "owners": [{"uid": "x"}, {"uid": "y"}]}, {"owners": [{"uid": "y"}]})
    True
    """
    if isinstance(want, dict):
        if not isinstance(have, dict):
            return False
        fields = cast(Object, have)
        return all(covers(fields.get(key), value) for key, value in cast(Object, want).items())
    if isinstance(want, list):
        items = cast("list[Any]", want)
        if not all(isinstance(each, dict) for each in items):
            return bool(have == want)
        there = objects.sequence(have)
        return all(any(covers(one, each) for one in there) for each in items)
    return bool(have == want) and isinstance(have, bool) == isinstance(want, bool)
