"""The subjects `composed` and `rights` with our server in the place of upstream's: what is wrong is noticed there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.kube import objects
from tests.api import references
from tests.api.references import ROBOT, TENANT
from tests.compose import rendered
from tests.compose.rendered import Part, Rendered
from tests.conformance import composed, ours, replay, rights
from tests.conformance.replay import Exchange
from tests.conformance.sharedcrds import definitions


def chosen(title: str) -> Rendered:
    return next(each.render() for each in rendered.everything() if each.title == title)


def spoilt(each: Rendered) -> Rendered:
    part = each.parts[0]
    obj = objects.copy(part.object)
    obj["spec"]["sizee"] = 1
    return replace(each, title=f"{each.title}, spoilt", parts=(Part(part.resource, obj), *each.parts[1:]))


@pytest.mark.skipif(not definitions.FOLDER.is_dir(), reason="the upstream definitions are not beside the repository")
async def test_an_object_with_a_field_too_many_is_not_accepted(tmp_path: Path) -> None:
    sound = chosen("golden redisinstance/new")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with ours.serving(tmp_path / "a") as one, ours.serving(tmp_path / "b") as two, replay.session() as http:
        good, bad = await composed.outcomes(http, one, two, [sound, spoilt(sound)])
    assert good.passed
    assert ".spec.sizee" in bad.differences[0]


ATTEMPT = next(references.attempts())


@pytest.mark.parametrize("user", [TENANT, ROBOT], ids=["tenant", "robot"])
@pytest.mark.parametrize(
    ("own", "foreign", "later", "found"),
    [
        pytest.param(201, (403, "{said}"), (403, "{said}"), 0, id="as it should be"),
        pytest.param(201, (201, ""), (403, "{said}"), 2, id="a new claim accepted"),
        pytest.param(201, (403, "{said}"), (200, ""), 1, id="a change accepted"),
        pytest.param(201, (403, "no such user"), (403, "{said}"), 2, id="refused for another reason"),
        pytest.param(403, (403, "{said}"), (403, "{said}"), 1, id="the tenant's own refused"),
    ],
)
def test_what_is_not_refused_as_it_should_be_is_noticed(
    user: str, own: int, foreign: tuple[int, str], later: tuple[int, str], found: int
) -> None:
    def answer(code: int, message: str) -> Exchange:
        return Exchange("POST", code, body={"message": message.format(said=ATTEMPT.said_to(user))})

    answers = [answer(own, ""), answer(*foreign), answer(*foreign), answer(*later)]
    assert len(rights.problems(ATTEMPT, user, "it", answers)) == found
