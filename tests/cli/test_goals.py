"""What `wait --for` understands, and when it is reached."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.cli import goals
from steelyard.cli.exits import CommandError
from steelyard.kube.objects import Object


def thing(status: str = "True", *, observed: int | None = None, **fields: Any) -> Object:
    condition: Object = {"type": "Ready", "status": status}
    if observed is not None:
        condition["observedGeneration"] = observed
    return {"metadata": {"name": "a", "generation": 2}, "status": {"conditions": [condition], **fields}}


@pytest.mark.parametrize(
    ("text", "obj", "is_reached"),
    [
        ("Ready", thing(), True),
        ("Ready", thing("False"), False),
        ("condition=Ready", thing(), True),
        ("condition=Ready=true", thing(), True),
        ("condition=Ready=False", thing("False"), True),
        ("condition=Ready=False", thing(), False),
        ("condition=Perfect", thing(), False),
        ("Ready", thing(observed=1), False),
        ("Ready", thing(observed=2), True),
        ("delete", thing(), False),
        ("delete", None, True),
        ("deleted", None, True),
        ("Ready", None, False),
        ("create", thing(), True),
        ("jsonpath={.status.state}=Ready", thing(state="Ready"), True),
        ("jsonpath={.status.state}=Ready", thing(state="Creating"), False),
        ("jsonpath={.status.state}", thing(state="Creating"), True),
        ("jsonpath={.status.state}", thing(), False),
        ("jsonpath='{.status.conditions[0].status}'=True", thing(), True),
        ("jsonpath={.status.n}=3", thing(n=3), True),
        ("jsonpath={.status.b}=true", thing(b=True), True),
    ],
)
def test_when_it_is_reached(text: str, obj: Object | None, is_reached: bool) -> None:
    assert goals.parse(text).is_reached(obj) is is_reached


@pytest.mark.parametrize("text", ["", "condition=", "Ready=True", "jsonpath={.items[*].x}=1", "jsonpath={.a}b", "x=y"])
def test_what_is_nothing_to_wait_for_is_refused(text: str) -> None:
    with pytest.raises(CommandError):
        goals.parse(text)
