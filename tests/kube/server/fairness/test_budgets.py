"""What one body may cost: it is bounded before it is spent, and what is long is done beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.server.api import Api
from steelyard.kube.server.bodies import syntax, workers, yamlbodies
from steelyard.kube.server.candidates import completing
from steelyard.kube.server.fairness import budgets
from steelyard.kube.server.fairness.budgets import MAX_VALUES
from steelyard.kube.store.store import Store
from tests.kube.server import payloads, serving
from tests.kube.server.bench import PARTS, make, simple_definition
from tests.kube.server.serving import Site

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PLAIN = {"Accept-Encoding": "identity"}
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
MERGE_BOMB = b"a: &a {k: 1}\n" + b"".join(
    b"b%d: &b%d {<<: [%s]}\n" % (level, level, b",".join([b"*b%d" % (level - 1) if level else b"*a"] * 20))
    for level in range(30)
)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[Site]:
    store = await Store.open(tmp_path / "db", fsync=False)
    api = await Api.start(store)
    async with serving.served(api) as site:
        await site.promote("jane")
        yield site
    await api.close()
    await store.close()


def config_map(name: str, data: Object, **metadata: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data}


@pytest.mark.parametrize(
    ("text", "least"),
    [
        pytest.param(b"[" + b"1," * 200_000 + b"1]", 200_000, id="numbers"),
        pytest.param(b"[" + b"{}," * 200_000 + b"{}]", 200_000, id="objects"),
        pytest.param(b"{" + b'"a":1,' * 200_000 + b'"a":1}', MAX_VALUES + 1, id="fields"),
        pytest.param(b'["\\\\",' + b'"",' * 300_000 + b'""]', MAX_VALUES + 1, id="texts"),
        pytest.param(b'["\\"",' + b"1," * 200_000 + b"1]", 200_000, id="behind an escaped quote"),
    ],
)
def test_values_are_counted_before_they_are_made(text: bytes, least: int) -> None:
    assert budgets.values(text) >= least
    with pytest.raises(errors.TooLarge, match=f"{MAX_VALUES} values"):
        payloads.read("create", "application/json", text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b'{"a":"' + b"1,{[" * 500_000 + b'"}', id="signs inside a text"),
        pytest.param(b'{"a":"' + b'\\",' * 300_000 + b'"}', id="escaped quotes"),
        pytest.param(b'{"a":"' + b"\\\\" * 300_000 + b'"}', id="escaped backslashes"),
    ],
)
def test_a_long_text_is_one_value(text: bytes) -> None:
    assert budgets.values(text) <= 4 or budgets.is_light(text)
    assert payloads.read("create", "application/json", text)[0] == orjson.loads(text)


def test_merge_keys_are_charged_while_they_are_merged() -> None:
    with pytest.raises(syntax.Unreadable, match="yaml: document contains excessive aliasing"):
        yamlbodies.load(MERGE_BOMB)


def test_aliases_are_charged_while_they_are_expanded() -> None:
    levels = b"a0: &a0 [1,1,1,1,1,1,1,1,1]\n" + b"".join(
        b"a%d: &a%d [%s]\n" % (level, level, b",".join([b"*a%d" % (level - 1)] * 9)) for level in range(1, 12)
    )
    with pytest.raises(syntax.Unreadable, match="excessive aliasing"):
        yamlbodies.load(levels)


def test_what_is_merged_is_overridden_and_not_repeated() -> None:
    text = b"a: &a {k: 1, j: 2}\nb: {<<: *a, k: 3}\nc: {<<: [{k: 4}, *a]}\n"
    assert yamlbodies.load(text) == (
        {"a": {"k": 1, "j": 2}, "b": {"k": 3, "j": 2}, "c": {"k": 4, "j": 2}},
        (),
    )


async def test_a_merge_bomb_is_refused_and_others_are_served(site: Site) -> None:
    headers = {"Content-Type": "application/yaml"}
    async with asyncio.timeout(60):
        answer = await site.request("POST", REVIEWS, MERGE_BOMB, token=serving.JANE_TOKEN, headers=headers)
    assert answer.code == 400
    assert "excessive aliasing" in answer.json()["message"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(b"[" * 90_000, "deep", id="open brackets"),
        pytest.param(
            b"[" + b"1," * 90_000 + b"!", "invalid character '!' looking for beginning of value", id="bad end"
        ),
        pytest.param(b'{"a":"' + b"x" * 3_000_000 + b'"!}', "invalid character '!' after object", id="behind a text"),
        pytest.param(b'["' + b"\\n" * 200_000 + b'\\x"]', "invalid character 'x' in string escape code", id="escape"),
        pytest.param(b'["' + b"\\u00e4" * 200_000, "unexpected end of JSON input", id="unfinished"),
    ],
)
def test_what_is_wrong_with_a_long_text_is_told_in_the_same_words(text: bytes, problem: str) -> None:
    with pytest.raises((errors.BadRequest, syntax.Unreadable), match=problem):
        payloads.read("create", "application/json", text)


@pytest.mark.parametrize("number", ["1" * 5000, "-" + "9" * 400, "1e400"])
async def test_a_number_beyond_all_bounds_is_the_clients_mistake(site: Site, number: str) -> None:
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n"},"data":{"a":%b}}' % number.encode()
    answer = await site.request("POST", CONFIG_MAPS, body)
    assert answer.code == 400
    assert "json: cannot unmarshal number" in answer.json()["message"]
    patch = b'[{"op":"add","path":"/data/a","value":%b}]' % number.encode()
    assert (await site.request("POST", CONFIG_MAPS, config_map("n", {}))).code == 201
    headers = {"Content-Type": "application/json-patch+json"}
    assert (await site.request("PATCH", f"{CONFIG_MAPS}/n", patch, headers=headers)).code == 400


def test_a_long_integer_in_yaml_is_what_go_makes_of_it() -> None:
    assert yamlbodies.load(b"[18446744073709551615, 18446744073709551616]")[0] == [2**64 - 1, 2.0**64]
    assert yamlbodies.load(b"a: " + b"1" * 5000)[0] == {"a": "1" * 5000}


async def test_large_objects_are_judged_beside_the_event_loop(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    new, changed = completing.new, completing.changed

    def noted(stage: Any) -> Any:
        def run(*args: Any) -> Any:
            threads.append(threading.current_thread().name)
            return stage(*args)

        return run

    monkeypatch.setattr(completing, "new", noted(new))
    monkeypatch.setattr(completing, "changed", noted(changed))
    # One that is nothing but texts would pass no stage.
    small = {**config_map("small", {"a": "b"}), "immutable": True}
    assert (await site.request("POST", CONFIG_MAPS, small)).code == 201
    large = config_map("large", {f"k{number}": "v" for number in range(20_000)})
    assert (await site.request("POST", CONFIG_MAPS, large)).code == 201
    headers = {"Content-Type": "application/merge-patch+json"}
    patches = [{"metadata": {"labels": {f"l{number}": "v"}}} for number in range(4)]
    answers = await asyncio.gather(
        *(site.request("PATCH", f"{CONFIG_MAPS}/large", orjson.dumps(patch), headers=headers) for patch in patches)
    )
    assert [answer.code for answer in answers] == [200] * 4
    labels = orjson.loads((await site.request("GET", f"{CONFIG_MAPS}/large", headers=PLAIN)).body)["metadata"]["labels"]
    assert labels == {f"l{number}": "v" for number in range(4)}, "none of them may overtake another"
    assert threads[0] == threading.main_thread().name
    assert all(name.startswith("lane") for name in threads[1:])


async def test_whatever_is_stored_can_be_sent_again(site: Site) -> None:
    """The managers of its fields count as well, since clients send them back."""
    refused = await site.request("POST", CONFIG_MAPS, config_map("a", {f"k{number}": "" for number in range(60_000)}))
    assert refused.code == 413
    large = config_map("a", {f"k{number}": "" for number in range(30_000)})
    taken = await site.request("POST", CONFIG_MAPS, large, headers=PLAIN)
    assert taken.code == 201
    assert (await site.request("PUT", f"{CONFIG_MAPS}/a", taken.body)).code == 200


async def test_patches_do_not_make_an_object_larger_than_a_body(site: Site) -> None:
    definition = simple_definition(PARTS)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await site.request("POST", definitions, definition)).code == 201
    path = f"/apis/{PARTS.api_version}/namespaces/default/{PARTS.plural}"
    assert (await site.request("POST", path, {**make(PARTS, "a"), "a": "x" * 2_000_000})).code == 201
    headers = {"Content-Type": "application/merge-patch+json"}
    more = orjson.dumps({"b": "x" * 2_000_000})
    answer = await site.request("PATCH", f"{path}/a", more, headers=headers)
    assert (answer.code, answer.json()["reason"]) == (413, "RequestEntityTooLarge")
    copies = orjson.dumps([{"op": "copy", "from": "/a", "path": f"/c{number}"} for number in range(9)])
    headers = {"Content-Type": "application/json-patch+json"}
    assert (await site.request("PATCH", f"{path}/a", copies, headers=headers)).code in {413, 422}


async def test_defaults_do_not_make_a_large_object_of_a_small_one(site: Site) -> None:
    one = {"type": "object", "properties": {f"p{n}": {"type": "string", "default": "d"} for n in range(1000)}}
    schema = {"type": "object", "properties": {"items": {"type": "array", "items": one}}}
    definition = simple_definition(PARTS)
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await site.request("POST", definitions, definition)).code == 201
    path = f"/apis/{PARTS.api_version}/namespaces/default/{PARTS.plural}"
    answer = await site.request("POST", path, {**make(PARTS, "a"), "items": [{}] * 200})
    assert (answer.code, answer.json()["reason"]) == (413, "RequestEntityTooLarge")
    assert (await site.request("POST", path, {**make(PARTS, "b"), "items": [{}] * 2})).code == 201


async def test_of_very_many_mistakes_the_first_are_told(site: Site) -> None:
    bad = config_map("a", {f"bad key {n}": "" for n in range(3000)})
    answer = await site.request("POST", CONFIG_MAPS, bad, headers=PLAIN)
    assert answer.code == 422
    causes = answer.json()["details"]["causes"]
    assert len(causes) <= 1001
    assert "more" in causes[-1]["message"] or "more" in answer.json()["message"]


async def test_long_yaml_means_the_same_as_short_yaml(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_READ_SECONDS", 120.0)  # of a machine that has other things to do
    headers = {"Content-Type": "application/yaml"}
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: long}\ndata:\n" + b"".join(
        b"  k%d: 'v'\n" % number for number in range(1000)
    )
    created = await site.request("POST", CONFIG_MAPS, text, headers=headers)
    assert created.code == 201
    assert created.json()["data"] == {f"k{number}": "v" for number in range(1000)}
    again = text.replace(b"name: long", b"name: again") + b"  k1: w\n"
    strict = await site.request("POST", f"{CONFIG_MAPS}?fieldValidation=Strict", again, headers=headers)
    assert (strict.code, "already set in map" in strict.json()["message"]) == (400, True)
    broken = await site.request("POST", CONFIG_MAPS, text + b"  k: [\n", headers=headers)
    assert broken.code == 400
    assert "did not find expected node content" in broken.json()["message"]
    many = await site.request("POST", CONFIG_MAPS, b"- 1\n" * 210_000, headers=headers)
    assert (many.code, "values" in many.json()["message"]) == (413, True)
    labelled = {"Content-Type": "application/apply-patch+yaml"}
    json_as_yaml = orjson.dumps(config_map("applied", {f"k{number}": "v" for number in range(1000)}))
    applied = await site.request("PATCH", f"{CONFIG_MAPS}/applied?fieldManager=m", json_as_yaml, headers=labelled)
    assert applied.code == 201


async def test_long_answers_have_every_form(site: Site) -> None:
    bodies = [config_map(f"c{number}", {"text": "a\nb: 'c'\n" * 20}) for number in range(40)]
    assert {answer.code for answer in [await site.request("POST", CONFIG_MAPS, body) for body in bodies]} == {201}
    plain = (await site.request("GET", CONFIG_MAPS)).json()
    pretty = await site.request("GET", f"{CONFIG_MAPS}?pretty=true")
    assert pretty.body == orjson.dumps(plain, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    in_yaml = await site.request("GET", CONFIG_MAPS, headers={"Accept": "application/yaml"})
    assert yaml.safe_load(in_yaml.body.replace(b'"', b'"')) == plain
    packed = await site.request("GET", CONFIG_MAPS, headers={"Accept": "application/vnd.kubernetes.protobuf"})
    assert (packed.code, packed.body[:4]) == (200, b"k8s\x00")
    sent = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    large = config_map("packed", {"a": "x" * 50_000})
    assert (await site.request("POST", CONFIG_MAPS, large)).code == 201
    as_protobuf = await site.request(
        "GET", f"{CONFIG_MAPS}/packed", headers={"Accept": "application/vnd.kubernetes.protobuf"}
    )
    assert (await site.request("PUT", f"{CONFIG_MAPS}/packed", as_protobuf.body, headers=sent)).code == 200


async def test_a_question_is_no_object(site: Site) -> None:
    review: Object = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {}}
    labels = {f"k{number}": "v" for number in range(5000)}
    answer = await site.request("POST", REVIEWS, {**review, "metadata": {"labels": labels}})
    assert answer.code == 413
