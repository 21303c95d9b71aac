"""The macros that go through a list or a map, and what their closures share with the rest.

Going through anything takes steps off the first place of the frame: a rule that would go on for too long is stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, cast

from steelyard.kube import effort
from steelyard.kube.cel import values
from steelyard.kube.cel.problems import CostExceeded, EvaluationError

Frame: TypeAlias = list[Any]
Run: TypeAlias = Callable[[Frame], Any]
Steps: TypeAlias = Callable[[Frame], Iterator[None]]

MOST_STEPS: Final = 250_000
"""Upstream allows a million units of cost, of which a step takes four or more."""
_EFFORT: Final = 500
"""Of one step, pessimistically: it may compare texts of a megabyte, and then the clock decides."""


def true(value: Any) -> bool:
    if value is True or value is False:
        return value
    raise values.no_overload()


def mapping(value: Any) -> dict[str, Any]:
    if value.__class__ is dict:
        return value
    raise values.no_overload()


def iterated(value: Any, frame: Frame) -> Any:
    if value.__class__ not in (list, dict):
        raise values.no_overload()
    take_steps(frame, len(value))
    return value


def take_steps(frame: Frame, steps: int) -> None:
    frame[0] -= steps
    if frame[0] < 0:
        raise exceeded()


def exceeded() -> CostExceeded:
    return CostExceeded("operation cancelled: actual cost limit exceeded")


def single(over: Run, place: int) -> Steps:
    def steps(frame: Frame) -> Iterator[None]:
        for item in iterated(over(frame), frame):
            effort.spend(_EFFORT)
            frame[place] = item
            yield

    return steps


def pairs(over: Run, place: int) -> Steps:
    def steps(frame: Frame) -> Iterator[None]:
        for first, second in pairs_of(iterated(over(frame), frame)):
            effort.spend(_EFFORT)
            frame[place], frame[place + 1] = first, second
            yield

    return steps


def pairs_of(found: Any) -> Any:
    return cast("dict[Any, Any]", found).items() if found.__class__ is dict else enumerate(found)


def quantified(over: Run, place: int, has_pairs: bool, condition: Run, *, by: bool) -> Run:
    other = not by

    def run(frame: Frame) -> bool:
        failure: EvaluationError | None = None
        items = iterated(over(frame), frame)
        for item in pairs_of(items) if has_pairs else items:
            effort.spend(_EFFORT)
            if has_pairs:
                frame[place], frame[place + 1] = item
            else:
                frame[place] = item
            try:
                verdict = condition(frame)
                if verdict is by:
                    return by
                if verdict is not other:
                    raise values.no_overload()
            except EvaluationError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return other

    return run


def only_one(over: Run, place: int, has_pairs: bool, condition: Run) -> Run:
    def run(frame: Frame) -> bool:
        count = 0
        items = iterated(over(frame), frame)
        for item in pairs_of(items) if has_pairs else items:
            effort.spend(_EFFORT)
            if has_pairs:
                frame[place], frame[place + 1] = item
            else:
                frame[place] = item
            verdict = condition(frame)
            if verdict is True:
                count += 1
            elif verdict is not False:
                raise values.no_overload()
        return count == 1

    return run


def keyed(steps: Steps, condition: Run | None, result: Run, place: int) -> Run:
    def run(frame: Frame) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for _ in steps(frame):
            if condition is None or true(condition(frame)):
                found[frame[place]] = result(frame)
        return found

    return run


def merged(steps: Steps, condition: Run | None, result: Run) -> Run:
    def run(frame: Frame) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for _ in steps(frame):
            if condition is not None and not true(condition(frame)):
                continue
            for key, value in mapping(result(frame)).items():
                if key in found:
                    raise EvaluationError(f"insert failed: key {key} already exists")
                found[key] = value
        return found

    return run


def mapped_optional(over: Run, result: Run, place: int, *, wraps: bool) -> Run:
    def run(frame: Frame) -> Any:
        optional = over(frame)
        if optional.__class__ is not values.Optional:
            raise values.no_overload()
        if optional is values.NONE:
            return values.NONE
        frame[place] = optional.value
        found = result(frame)
        return values.Optional(found) if wraps else found

    return run
