"""What every composition refuses: a claim that cannot be read, and one of a revision that this version does not have.

A composition raises `Refused` wherever it finds that it cannot go on; `refusing` makes of it what callers expect.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Final, ParamSpec, TypeVar

import pydantic

from steelyard.api import claims
from steelyard.api.model import ApiModel
from steelyard.compose.composed import Composed, Condition, Refusal
from steelyard.kube import objects
from steelyard.kube.objects import Object

REVISION: Final = claims.COMPOSITION_REVISION
"""Annotation of a claim: the revision of its composition that it is to have. Nothing else moves a claim to another."""

P = ParamSpec("P")
M = TypeVar("M", bound=ApiModel)


class Refused(Exception):
    """The claim cannot be composed; what exists stays as it is."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def refusing(compose: Callable[P, Composed]) -> Callable[P, Composed]:
    @functools.wraps(compose)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> Composed:
        try:
            return compose(*args, **kwargs)
        except Refused as refused:
            return Composed(
                conditions=[Condition("Ready", "False", refused.reason, refused.message)],
                refusal=Refusal(refused.reason, refused.message),
            )

    return guarded


def spec(claim: Object, model: type[M]) -> M:
    """What the claim asks for. Admission has checked it; a claim of another version may have passed another one."""
    try:
        return model.model_validate(claim.get("spec"))
    except pydantic.ValidationError as error:
        detail = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in ("spec", *detail["loc"]))
        raise Refused("InvalidClaim", f"the claim cannot be read: {where}: {detail['msg']}") from error


def revision(claim: Object, known: Collection[str], newest: str) -> str:
    """The one that the claim is pinned to, or a newer one that its annotation asks for; the newest for a claim that
    says nothing and has not been composed yet.

        status v1, annotation v2   ->   v2          status v2, annotation v1   ->   refused
    """
    pinned = str(objects.at(claim, "status", "compositionRevision") or "")
    asked = objects.annotations(claim).get(REVISION, "")
    offered = ", ".join(sorted(known, key=_number))
    if asked and asked not in known:
        raise Refused(
            "UnknownCompositionRevision",
            f"the annotation {REVISION} asks for composition revision {asked[:100]}, which this version of Steelyard "
            f"does not have; it has {offered}. Set it to one of them, or take it off",
        )
    if pinned and pinned not in known:
        raise Refused(
            "UnknownCompositionRevision",
            f"the claim is pinned to composition revision {pinned}, which this version of Steelyard does not have; "
            f"it has {offered}. Run the version that made it, or a newer one",
        )
    if asked and pinned and _number(asked) < _number(pinned):
        raise Refused(
            "CompositionRevisionCannotGoBack",
            f"the claim is made by composition revision {pinned}, and the annotation {REVISION} asks for {asked}: an "
            f"older one does not know what the newer one has made. Set the annotation to {pinned}, or take it off",
        )
    return asked or pinned or newest


def _number(revision: str) -> int:
    digits = revision.removeprefix("v")
    return int(digits) if digits.isdecimal() else 0
