"""Which versions of Kubernetes a claim may ask for, and how a cluster goes from one to another.

The same reading serves the rules of the CRD, which any API server enforces, the platform file and `steelyard doctor`.
What is stored already is not judged again: a version that was accepted once stays, and can be changed to a valid one.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

Version: TypeAlias = tuple[int, int, int]

OLDEST_MINOR: Final = 22
"""The first whose kubeadm reads a configuration that this version of Steelyard writes."""
NEWEST_MINOR: Final = 35
NEWEST: Final = f"v1.{NEWEST_MINOR}.0"
OLDEST: Final = f"v1.{OLDEST_MINOR}.0"
RANGE: Final = f"v1.{OLDEST_MINOR} to v1.{NEWEST_MINOR}"

_MINORS: Final = "|".join(str(minor) for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1))
PATTERN: Final = rf"^v?1[.]({_MINORS})[.](0|[1-9][0-9]?)$"
"""A version that is offered. Without backslashes, so that it can stand in a rule as it is."""
WITHOUT_PATCH: Final = rf"^v?1[.]({_MINORS})$"
TOO_OLD: Final = rf"^v?(0|1[.]([0-9]|1[0-9]|2[0-{OLDEST_MINOR % 10 - 1}]))([.].*)?$"

_NUMBERS: Final = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


def is_offered(version: str) -> bool:
    return re.fullmatch(PATTERN, version) is not None


def problem(version: str) -> str:
    """What is wrong with a version and what to write instead; empty if it is offered.

    >>> problem("1.34")
    'a version names its patch, too: write v1.34.0'
    """
    if is_offered(version):
        return ""
    if re.fullmatch(WITHOUT_PATCH, version):
        return f"{_PATCH_MISSING}v{version.removeprefix('v')}.0"
    return f'"{version}"{_NOT_OFFERED}{OLDEST if re.fullmatch(TOO_OLD, version) else NEWEST}'


def step_problem(running: str, asked: str) -> str:
    """Why a cluster cannot go from one version to the other; empty if it can, or if either is not one of ours."""
    if not (is_offered(running) and is_offered(asked)):
        return ""
    before, after = parsed(running), parsed(asked)
    if after < before:
        return f"the cluster runs {canonical(running)}{_NO_WAY_BACK}"
    return f"{_ONE_AT_A_TIME}{_step_from(before[1])}" if after[1] > before[1] + 1 else ""


def parsed(version: str) -> Version:
    """
    >>> parsed("v1.32.1")
    (1, 32, 1)
    """
    found = _NUMBERS.match(version)
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)


def canonical(version: str) -> str:
    """With the leading v, as Cluster API wants it."""
    return version if version.startswith("v") else f"v{version}"


_PATCH_MISSING: Final = "a version names its patch, too: write "
_NOT_OFFERED: Final = f" is not offered: clusters are made of Kubernetes {RANGE}, written as v1.34.0; the nearest is "
_NO_WAY_BACK: Final = ", and Kubernetes cannot go back to an older version; make a new cluster for that"
_ONE_AT_A_TIME: Final = "Kubernetes is upgraded one minor version at a time: "

OFFERED_RULE: Final[dict[str, Any]] = {
    "rule": f"self.matches('{PATTERN}')",
    # For a value that cannot be quoted in a message, as one with a line break.
    "message": f"clusters are made of Kubernetes {RANGE}, written as v1.34.0",
    "messageExpression": (
        f"self.matches('{WITHOUT_PATCH}') "
        f"? '{_PATCH_MISSING}' + (self.startsWith('v') ? self : 'v' + self) + '.0' "
        f""": '"' + self + '"{_NOT_OFFERED}' + (self.matches('{TOO_OLD}') ? '{OLDEST}' : '{NEWEST}')"""
    ),
}
"""For the field itself. Unchanged, it is not judged again: API servers let stand what an update leaves alone."""


def step_rules(asked: str, running: str) -> tuple[dict[str, Any], ...]:
    """For an object with the version that is asked for at one path and the one that runs at the other, on updates.

    What is not one of our versions is not compared: who has got one may go to any that is offered.
    """
    now, then = f"self{asked}", f"oldSelf{running}"
    is_compared = (
        f"{_has('self', asked)} && {_has('oldSelf', running)} && "
        f"!({_has('oldSelf', asked)} && oldSelf{asked} == {now}) && "
        f"{now}.matches('{PATTERN}') && {then}.matches('{PATTERN}')"
    )
    is_older = f"{_minor(now)} < {_minor(then)} || ({_minor(now)} == {_minor(then)} && {_patch(now)} < {_patch(then)})"
    return (
        {
            "rule": f"!({is_compared}) || {_minor(now)} <= {_minor(then)} + 1",
            "messageExpression": f"'{_ONE_AT_A_TIME}' + {_next_step(then)}",
            "fieldPath": asked,
        },
        {
            "rule": f"!({is_compared}) || !({is_older})",
            "messageExpression": f"'the cluster runs ' + {then} + '{_NO_WAY_BACK}'",
            "fieldPath": asked,
        },
    )


def _has(root: str, path: str) -> str:
    steps = path.split(".")[1:]
    return " && ".join(f"has({root}.{'.'.join(steps[: end + 1])})" for end in range(len(steps)))


def _step_from(minor: int) -> str:
    return f"from v1.{minor} go to v1.{minor + 1} first"


def _next_step(then: str) -> str:
    """Every case spelled out: API servers refuse a message whose length cannot be told, such as a number's."""
    text = f"'{_step_from(NEWEST_MINOR - 1)}'"
    for minor in range(NEWEST_MINOR - 2, OLDEST_MINOR - 1, -1):
        text = f"({then}.matches('^v?1[.]{minor}[.]') ? '{_step_from(minor)}' : {text})"
    return text


def _minor(text: str) -> str:
    return f"int({text}.split('.')[1])"


def _patch(text: str) -> str:
    return f"int({text}.split('.')[2])"
