"""What the function composes is what `steelyard render` prints, out of what holds it, for every kind in both forms."""

from __future__ import annotations

import pytest

from steelyard.api import xrd
from steelyard.api.xrd import Form
from steelyard.compose.offering import STANDARD
from steelyard.kube.objects import Object
from steelyard.plan import offline
from steelyard.settings import Platform, parse
from tests.compose import cases, upstream
from tests.crossplane.unwrapping import rendered
from tests.crossplane.world import World

KINDS = {kind.resource("").kind: kind for kind in STANDARD.kinds}
NEW = [
    case
    for case in cases.CASES
    if "status" not in cases.load(case, "claim.yaml") and not cases.load(case, "observed.yaml")
]
"""Golden claims of which nothing has been made yet."""


def claims() -> list[tuple[str, Object, Platform]]:
    found = [(case, cases.load(case, "claim.yaml"), cases.platform(case)) for case in NEW]
    for name, kind in KINDS.items():
        metadata = {"name": "shop", "namespace": "team-a"}
        claim: Object = {
            "apiVersion": kind.resource("steelyard.dev").api_version,
            "kind": name,
            "metadata": metadata,
            "spec": kind.guide.example,
        }
        found.append((f"example of {name}", claim, parse("redis: {mode: helm}")))
    return found


CLAIMS = claims()


@pytest.mark.parametrize("form", xrd.FORMS)
@pytest.mark.parametrize(("claim", "platform"), [each[1:] for each in CLAIMS], ids=[each[0] for each in CLAIMS])
def test_the_function_makes_the_objects_that_render_prints(claim: Object, platform: Platform, form: Form) -> None:
    kind = STANDARD.kind_of(claim)
    assert kind is not None
    expected = offline.render(kind, claim, platform)
    if expected.composed.refusal is not None:
        pytest.skip(f"refused: {expected.composed.refusal.message}")

    world = World(claim, platform, form)
    world.reconcile()

    assert rendered(world.composed().values(), platform) == expected.parts


@upstream.needed
@pytest.mark.parametrize("form", xrd.FORMS)
@pytest.mark.parametrize(("claim", "platform"), [each[1:] for each in CLAIMS], ids=[each[0] for each in CLAIMS])
def test_what_crossplane_is_to_make_passes_upstreams_schemas(claim: Object, platform: Platform, form: Form) -> None:
    world = World(claim, platform, form)
    kind = STANDARD.kind_of(claim)
    assert kind is not None
    if offline.render(kind, claim, platform).composed.refusal is not None:
        pytest.skip("refused")
    world.reconcile()

    for name, obj in world.composed().items():
        group = obj["apiVersion"].rpartition("/")[0]
        if group in upstream.BUILT_IN or not group.endswith("crossplane.io"):
            continue
        plural = {"Usage": "usages", "ClusterUsage": "clusterusages"}.get(obj["kind"], f"{obj['kind'].lower()}s")
        schema = upstream.schema_of(f"{plural}.{group}", obj["apiVersion"].rpartition("/")[2])
        assert upstream.problems(schema, obj) == [], name
