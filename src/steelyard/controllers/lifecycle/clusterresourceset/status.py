"""The condition of a ClusterResourceSet: upstream's reasons, and a message that says what is missing where. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.verdicts import Verdict

APPLIED: Final = "ResourcesApplied"
_SHOWN: Final = 5
_LONGEST: Final = 400


@frozen
class Problem:
    """What keeps something from being inside a cluster."""

    reason: str
    message: str
    look_again: float | None = None
    """In how many seconds; None where only a change that is watched can mend it."""
    has_failed: bool = False
    """Whether it was tried, and is to be tried ever more rarely."""


def missing(source: str) -> Problem:
    return Problem("InternalError", f"{source} does not exist: create it")


def wrong_type(source: str, found: str, wanted: str) -> Problem:
    return Problem("WrongSecretType", f"{source} is of type {found}; create it anew with type {wanted}")


def waiting(cluster: Object, message: str, look_again: float | None = None) -> Problem:
    return Problem("InternalError", f"{_called(cluster)}: {message}", look_again)


def unreachable(cluster: Object, message: str) -> Problem:
    return Problem("InternalError", f"{_called(cluster)}: its API cannot be reached: {message}", has_failed=True)


def paused(cluster: Object) -> Problem:
    return Problem("NotApplied", f"{_called(cluster)} is paused")


def failed(cluster: Object, source: str, causes: Sequence[str], *, may_pass: bool) -> Problem:
    message = f"{source} cannot be applied to {_called(cluster)}: {_listed(causes, '; ')}"
    return Problem("NotApplied", message, has_failed=may_pass)


def verdict(problems: Iterable[Problem]) -> Verdict:
    found = list(dict.fromkeys(problems))
    if not found:
        return verdicts.true(APPLIED, "Applied")
    return verdicts.false(APPLIED, found[0].reason, _listed([each.message for each in found], "\n"))


def _called(cluster: Object) -> str:
    return f"Cluster {objects.name(cluster)}"


def _listed(texts: Sequence[str], separator: str) -> str:
    shown = [text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…" for text in texts[:_SHOWN]]
    more = [f"and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return separator.join([*shown, *more])
