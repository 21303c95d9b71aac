"""Upstream's own answers to sequences of applies and updates, replayed.

`upstream/answers.json` holds what the field manager of k8s.io/apimachinery gives for `upstream/scenarios.json`. To make
it again, in `tools/upstream` (whose Go module pins upstream's version):

    there=../../tests/kube/server/apply/upstream
    go run $there/main.go < $there/scenarios.json > answers && mv answers $there/answers.json
"""

from pathlib import Path
from typing import Any, Final, cast

import orjson
import pytest

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.schema import parse
from steelyard.kube.server.apply import apply

_HERE: Final = Path(__file__).parent / "upstream"
_ANSWERS: Final = cast("list[Object]", orjson.loads((_HERE / "answers.json").read_bytes()))
_SCHEMA: Final = parse.from_openapi(orjson.loads((_HERE / "scenarios.json").read_bytes())["schemas"]["Thing"])
_API_VERSION: Final = "example.com/v1"


def _play(step: Object, live: Object | None, now: str) -> Object:
    subresource = str(step.get("subresource") or "")
    ignored = apply.reset_fields(subresource, has_status=bool(step.get("hasStatus")))
    if step["op"] == "apply":
        return apply.apply(
            _SCHEMA,
            live,
            step["object"],
            manager=step["manager"],
            force=bool(step.get("force")),
            api_version=_API_VERSION,
            now=now,
            subresource=subresource,
            ignored=ignored,
        )
    return apply.track_update(
        _SCHEMA,
        live,
        step["object"],
        manager=step["manager"],
        api_version=_API_VERSION,
        now=now,
        subresource=subresource,
        ignored=ignored,
    )


def _with_uid(obj: Object) -> Object:
    copied = objects.copy(obj)
    copied["metadata"]["uid"] = "uid"
    return copied


def _by_owner(causes: Any) -> list[tuple[str, str]]:
    return sorted((cause["message"], cause["field"]) for cause in causes)


@pytest.mark.parametrize("scenario", [pytest.param(answer, id=answer["name"]) for answer in _ANSWERS])
def test_the_outcome_is_upstreams(scenario: Object) -> None:
    live: Object | None = None
    for number, step in enumerate(scenario["steps"]):
        now = f"2024-01-01T00:00:{number:02}Z"
        before = live
        given = orjson.dumps([before, step["object"]])
        if "error" in step:
            with pytest.raises(errors.ApiError) as raised:
                _play(step, before, now)
            assert sorted(raised.value.message.split("\n")) == sorted(step["error"].split("\n"))
            assert _by_owner(cause.to_json() for cause in raised.value.causes) == _by_owner(step.get("causes", []))
        else:
            live = _with_uid(_play(step, before, now))
            assert live == step["result"]
        assert orjson.dumps([before, step["object"]]) == given, "nothing is changed in place"
