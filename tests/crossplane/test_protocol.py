"""Messages of the protocol: inputs, other functions of the pipeline, turns."""

from __future__ import annotations

import datetime

import crossplane.function.proto.v1.run_function_pb2 as fn
import pytest

from steelyard.compose.offering import STANDARD
from steelyard.crossplane import inputs, structs
from steelyard.crossplane.composing import Answer
from steelyard.crossplane.serving import Function
from steelyard.crossplane.turns import Turns
from steelyard.kube.objects import Object
from steelyard.settings import Platform, parse
from tests.crossplane.test_composing import cluster
from tests.crossplane.world import composite


def function(platform: Platform | None = None) -> Function:
    return Function(platform or Platform(), STANDARD, lambda: datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))


def request(given: Object | None = None, claim: Object | None = None) -> fn.RunFunctionRequest:
    made = fn.RunFunctionRequest()
    structs.write(made.observed.composite.resource, composite(claim or cluster(), "namespaced"))
    if given is not None:
        structs.write(made.input, given)
    return made


def told(answer: fn.RunFunctionResponse) -> str:
    return "".join(each.message for each in answer.results)


def test_settings_come_from_the_input_and_else_from_the_functions_own_file() -> None:
    own = parse("environments: {dev: {workerReplicas: 5}}")
    with_input = function(own).run(request(inputs.document(Platform())))
    without = function(own).run(request())

    def workers(answer: fn.RunFunctionResponse) -> object:
        return structs.read(answer.desired.resources["workers"].resource)["spec"]["replicas"]

    assert workers(with_input) == Platform().environments["dev"].worker_replicas
    assert workers(without) == 5


def test_the_input_holds_everything_so_that_a_later_default_changes_nothing() -> None:
    platform = parse("domain: example.org\nsimulated: {bootSeconds: 1.5}\nenvironments: {qa: {like: uat}}")
    written = inputs.document(platform)
    struct = fn.RunFunctionRequest().input
    structs.write(struct, written)

    read = inputs.Inputs(Platform(), STANDARD.infrastructure_names).read(b"x", lambda: structs.read(struct))

    assert read.platform == platform
    assert len(written["platform"]) == len(Platform.model_fields)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "must be Input of function.steelyard.dev/v1alpha1"),
        ({"apiVersion": inputs.API_VERSION, "kind": "Input", "plattform": {}}, "says plattform, which this version"),
        (
            {"apiVersion": inputs.API_VERSION, "kind": "Input", "platform": {"domian": "a.b"}},
            "unknown key domian; did you mean domain?",
        ),
    ],
    ids=["of another kind", "with an unknown field", "with a wrong platform file"],
)
def test_an_input_that_cannot_be_used_is_refused(given: Object, words: str) -> None:
    answer = function().run(request(given))

    assert words in told(answer)
    assert [each.severity for each in answer.results] == [fn.SEVERITY_FATAL]


def test_what_other_functions_want_is_passed_on() -> None:
    asked = request()
    structs.write(asked.desired.resources["theirs"].resource, {"apiVersion": "v1", "kind": "ConfigMap"})
    structs.write(asked.desired.composite.resource, {"status": {"theirs": True}})
    structs.write(asked.context, {"key": "value"})

    answer = function().run(asked)

    assert structs.read(answer.desired.resources["theirs"].resource) == {"apiVersion": "v1", "kind": "ConfigMap"}
    assert structs.read(answer.context) == {"key": "value"}
    status = structs.read(answer.desired.composite.resource)["status"]
    assert status["theirs"] is True
    assert status["state"] == "Creating"


def test_crossplane_before_v2_is_asked_by_the_older_name_where_the_input_says_so() -> None:
    answer = function().run(request({"apiVersion": inputs.API_VERSION, "kind": "Input", "extraResources": True}))

    assert "machines" in answer.requirements.extra_resources
    assert not answer.requirements.resources


def test_nothing_is_composed_for_a_kind_that_there_is_not() -> None:
    answer = function().run(request(claim={**cluster(), "kind": "Sandwich"}))

    assert "has no composition for Sandwich" in told(answer)
    assert not answer.desired.resources


POOLS = "networks: {pods: {pools: [10.128.0.0/12], prefix: 16}}"


def test_two_claims_never_take_ranges_at_once() -> None:
    platform = parse(POOLS)
    served = function(platform)
    other = cluster()
    other["metadata"]["name"] = "blog"

    first, second = served.run(request()), served.run(request(claim=other))

    assert not first.results
    assert "another claim is taking a range" in told(second)
    assert [each.severity for each in second.results] == [fn.SEVERITY_FATAL]


def test_a_turn_ends_when_the_cluster_is_seen_or_after_a_while() -> None:
    turns = Turns()
    taking, other = Answer(subject="a", takes_turns=True), Answer(subject="b", takes_turns=True)
    assert not turns.kept(taking, 0).is_fatal
    assert turns.kept(other, 1).is_fatal

    assert not turns.kept(Answer(subject="a"), 2).is_fatal, "its Cluster is there"
    assert turns.kept(other, 3).is_fatal, "what was looked up may be older"
    assert not turns.kept(other, 6).is_fatal

    assert turns.kept(taking, 10).is_fatal
    assert not turns.kept(taking, 70).is_fatal, "whoever had it has given up"


def test_a_claim_that_never_gets_its_cluster_keeps_nobody_from_a_turn() -> None:
    """Each is asked every 15 seconds."""
    turns = Turns()
    stuck = [Answer(subject=f"stuck-{number}", takes_turns=True) for number in range(3)]
    taking = Answer(subject="shop", takes_turns=True)
    had: list[int] = []
    for now in range(0, 1200, 15):
        for number, each in enumerate(stuck):
            turns.kept(each, now + number)
        answer = turns.kept(taking, now + 5)
        if not answer.is_fatal:
            had.append(now)
        else:
            assert "stuck" not in answer.results[0].message, "whose it is, is nobody else's business"
    assert min(had) <= 4 * 60
    assert max(had) >= 900, "again and again"


def test_who_has_used_up_a_turn_has_another_when_nobody_waits_any_more() -> None:
    turns = Turns()
    slow, other = Answer(subject="slow", takes_turns=True), Answer(subject="other", takes_turns=True)
    assert not turns.kept(slow, 0).is_fatal
    assert not turns.kept(slow, 59).is_fatal
    assert turns.kept(other, 59).is_fatal
    assert turns.kept(slow, 61).is_fatal, "the other one waits"
    assert not turns.kept(slow, 200).is_fatal, "it has given up"
    assert not turns.kept(slow, 270).is_fatal, "nobody waits"
