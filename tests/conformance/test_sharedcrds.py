"""A sample of other people's definitions against our server alone: what is valid is accepted, what is broken is refused
with the field named. `make conformance` compares all of them with upstream.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from steelyard.kube import objects
from tests.conformance import ours, replay
from tests.conformance.replay import Exchange
from tests.conformance.sharedcrds import definitions, run

SAMPLE = 12
SEED = random.SystemRandom().randrange(1_000_000)


@pytest.mark.skipif(not definitions.FOLDER.is_dir(), reason="the upstream definitions are not beside the repository")
async def test_objects_of_other_peoples_definitions(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    chosen = random.Random(SEED).sample(list(definitions.load()), SAMPLE)
    async with ours.serving(tmp_path) as server, replay.session() as http:
        for definition in chosen:
            (installed,) = await replay.play(http, server, run.install([definition]))
            if installed.code != 201:
                assert objects.at(installed.body, "details", "causes"), definition.name
                continue
            case = run.case(definition, SEED)
            *_, accepted, first, second, third = await replay.play(http, server, run.objects_of(case))
            assert accepted.code == 201, (definition.name, accepted.body)
            for broken, refused in zip(case.broken, (first, second, third), strict=True):
                assert refused.code in (400, 422), (definition.name, broken, refused.body)
                assert _fields(refused) >= set(broken.fields), (definition.name, broken.what, refused.body)


def _fields(answer: Exchange) -> set[str]:
    causes = objects.sequence(objects.at(answer.body, "details", "causes"))
    return {str(cause.get("field", "")) for cause in causes}
