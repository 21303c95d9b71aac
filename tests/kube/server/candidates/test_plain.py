"""An object that is made in one go is the one that the stages make, and what they refuse is refused in their words."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, NAMESPACES
from steelyard.kube.server.bodies import options
from steelyard.kube.server.call import Payload, Representation, User
from steelyard.kube.server.candidates import plain
from steelyard.kube.server.catalogue import registry
from steelyard.kube.store.store import Store
from tests.kube.server.admission.test_policies import bind, policy
from tests.kube.server.bench import ADMIN, Bench, make, make_call
from tests.soak import properties

NAME, NOW = "a-name", "2026-01-01T00:00:00Z"
PLAIN: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {"key": "text"}}
LABELLED: Object = {**PLAIN, "metadata": {"labels": {"a": "b"}, "name": NAME, "annotations": {"c": ""}}}
CREATES: Object = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
SERVED = registry.builtin()["", "v1", "configmaps"]

ODD: list[Any] = [None, True, 0, 1.5, "", "x", "..", "a/b", "é", [], {}, [None], {"a": None}, {"a": 1}, "\ud800"]
PLACES: dict[tuple[str, ...], list[Any]] = {
    ("apiVersion",): [*ODD, "v2", "apps/v1"],
    ("kind",): [*ODD, "Secret", "configmap"],
    ("metadata",): ODD,
    ("metadata", "name"): [*ODD, "A", "a.b", "a..b", "-a", "a\n", "a" * 253, "a" * 254],
    ("metadata", "namespace"): [*ODD, "default", "other"],
    ("metadata", "labels"): ODD,
    ("metadata", "labels", "l"): [*ODD, "-x", "a b", "v" * 63, "v" * 64],
    ("metadata", "annotations"): ODD,
    ("metadata", "annotations", "n"): [*ODD, "x" * 270_000],
    ("metadata", "generateName"): [*ODD, "a-"],
    ("metadata", "generation"): [*ODD, -1, 5],
    ("metadata", "creationTimestamp"): [*ODD, NOW],
    ("metadata", "deletionTimestamp"): [*ODD, NOW],
    ("metadata", "finalizers"): [*ODD, ["example.com/x"], ["x"]],
    ("metadata", "managedFields"): [*ODD, [{}]],
    ("metadata", "ownerReferences"): ODD,
    ("metadata", "resourceVersion"): [*ODD, "5"],
    ("metadata", "selfLink"): ODD,
    ("metadata", "uid"): ODD,
    ("metadata", "unknown"): ODD,
    **{("metadata", "labels", key): ["x"] for key in ("a/b/c", "-", "", "A", "l" * 64, "example.com/a", "É/a")},
    **{("metadata", "annotations", key): ["x"] for key in ("a/b/c", "-", "", "A", "l" * 64, "Example.com/A")},
    ("data",): ODD,
    ("data", "a"): [*ODD, ":", "\\u003a", "x" * 17_000, "x" * 1_100_000, "\0", "2026-01-01", "yes", "\n"],
    **{("data", key): ["x"] for key in (".", "..", "..a", ".a", "", "a b", "é", "k" * 253, "k" * 254, "a\n", ":")},
    ("binaryData",): [*ODD, {"key": "eA=="}],
    ("immutable",): ODD,
    ("unknown",): ODD,
}
DEVIATIONS = [(place, value) for place, values in PLACES.items() for value in values]
"""What makes a plain object another one, mostly one that is not plain."""
LABELS = st.dictionaries(st.sampled_from(["a", "b", "example.com/A"]), st.sampled_from(["", "x"]), min_size=1)
METADATA = st.fixed_dictionaries(
    {"name": st.sampled_from([NAME, "a.b", "a" * 253])},
    optional={"namespace": st.just("default"), "annotations": LABELS, "labels": LABELS},
)
TEXTS = st.dictionaries(st.sampled_from(["a", "B_-.c", ".a", "k" * 129]), st.text(max_size=8), min_size=1, max_size=3)
PLAIN_BODIES = st.permutations(["apiVersion", "kind", "metadata", "data"]).flatmap(
    lambda order: st.fixed_dictionaries({field: FIELDS[field] for field in order})
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "apiVersion": st.just("v1"),
    "kind": st.just("ConfigMap"),
    "metadata": METADATA,
    "data": TEXTS,
}
WANTED: list[dict[str, str]] = [
    {"dryRun": "All"},
    {"fieldManager": "tester"},
    {"fieldManager": "m" * 128},
    {"userAgent": "kubectl/v1"},
    {"userAgent": "é" * 128},
    {"userAgent": "/"},
    {"fieldValidation": "Strict"},
    {"fieldValidation": "Warn"},
    {"fieldValidation": "Ignore"},
    {"fieldValidation": "Other"},
]
FORMS = ["in process", "compact", "spaced", "repeated", "yaml"]
REPRESENTATIONS: list[Representation] = ["object", "metadata", "table"]


def deviating(body: Object, deviations: list[tuple[tuple[str, ...], Any]]) -> Object:
    made: Object = orjson.loads(orjson.dumps(body))
    for (*way, last), value in deviations:
        inner: Any = made
        for field in way:
            inner = cast(Object, inner).setdefault(field, {}) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            cast(Object, inner)[last] = value
    return made


async def both_answers(bench: Bench, body: Any, form: str = "in process", **more: Any) -> tuple[object, object]:
    """Of a server that is asked everything twice: as it is, and with the stages alone."""
    as_it_is = await _answer(bench, body, form, **more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "new", _never)
        return as_it_is, await _answer(bench, body, form, **more)


def _never(*_: object) -> None:
    """No object is plain."""


async def _answer(bench: Bench, body: Any, form: str, **more: Any) -> object:
    """What the client gets and what is stored, which is removed again."""
    call = make_call("create", CONFIG_MAPS, body=body, **more)
    if form != "in process":
        call.payload, call.body = payload(body, form), None
    before = bench.store.revision
    try:
        reply = await bench.api.call(call)
    except errors.ApiError as error:
        assert bench.store.revision == before
        return errors.of(error), error.warnings
    stored = [each for each in bench.store.scan(collection(call.namespace)) if each.revision > before]
    for record in stored:
        await _remove(bench, record.object["metadata"])
    return reply.code, anonymous(reply.text()), reply.warnings, [anonymous(record.value) for record in stored]


def collection(namespace: str) -> str:
    return f"main/core/configmaps/{namespace}/"


async def _remove(bench: Bench, metadata: Object) -> None:
    place: dict[str, Any] = {"namespace": metadata["namespace"], "user": ADMIN}
    await bench.delete(CONFIG_MAPS, metadata["name"], **place)
    if "finalizers" in metadata:
        await bench.patch(CONFIG_MAPS, metadata["name"], {"metadata": {"finalizers": None}}, **place)


def payload(body: Any, form: str) -> Payload:
    text = json.dumps(
        body, separators=(",", ":") if form == "compact" else (", ", ": "), ensure_ascii=form != "compact"
    )
    if form == "repeated":
        text = text.replace('"name"', '"name": "first", "name"')
    return Payload("application/yaml" if form == "yaml" else "application/json", text.encode(errors="surrogatepass"))


def anonymous(text: bytes) -> bytes:
    """Without what differs from one create to the next; the order of the rest counts."""
    obj: Object = orjson.loads(text)
    for each in [obj, *(row["object"] for row in obj.get("rows", []))]:
        metadata: Object = each["metadata"]
        metadata |= {name: "" for name in ("uid", "resourceVersion") if name in metadata}
        if "generateName" in metadata:
            metadata["name"] = ""
    for row in obj.get("rows", []):
        row["cells"][0] = ""
    return orjson.dumps(obj)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def lasting(runner: asyncio.Runner) -> Iterator[Bench]:
    """One for all examples, since each leaves it as it was."""
    with tempfile.TemporaryDirectory() as folder:
        store = runner.run(Store.open(Path(folder) / "store.db", fsync=False))
        bench = runner.run(Bench.start(store, define=False))
        yield bench
        runner.run(bench.api.close())
        runner.run(store.close())


@settings(max_examples=properties.examples(100))
@given(
    st.builds(deviating, PLAIN_BODIES, st.lists(st.sampled_from(DEVIATIONS), max_size=2)),
    st.sampled_from(FORMS),
    st.lists(st.sampled_from(WANTED), max_size=2),
    st.sampled_from(REPRESENTATIONS),
)
def test_what_is_made_in_one_go_is_what_the_stages_make(
    runner: asyncio.Runner,
    lasting: Bench,
    body: Object,
    form: str,
    wanted: list[dict[str, str]],
    representation: Representation,
) -> None:
    options = {name: value for each in wanted for name, value in each.items()}
    asked = both_answers(lasting, body, form, options=options, representation=representation)
    as_it_is, by_stages = runner.run(asked)
    assert as_it_is == by_stages


@pytest.mark.parametrize("place", PLACES, ids=".".join)
async def test_what_differs_from_a_plain_object_in_one_place(bench: Bench, place: tuple[str, ...]) -> None:
    for value in PLACES[place]:
        for form in ("in process", "compact", "yaml"):
            as_it_is, by_stages = await both_answers(bench, deviating(PLAIN, [(place, value)]), form)
            assert as_it_is == by_stages, (value, form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wanted", [{}, *WANTED], ids=str)
async def test_how_it_is_asked_for(bench: Bench, form: str, wanted: dict[str, str]) -> None:
    for representation in REPRESENTATIONS:
        as_it_is, by_stages = await both_answers(bench, LABELLED, form, options=wanted, representation=representation)
        assert as_it_is == by_stages, representation


@pytest.mark.parametrize("part", ["data", "labels"])
async def test_keys_that_are_no_texts_are_refused_as_ever(bench: Bench, part: str) -> None:
    body = {**PLAIN, "data": {5: "x"}} if part == "data" else {**PLAIN, "metadata": {"name": NAME, "labels": {5: "x"}}}
    as_it_is, by_stages = await both_answers(bench, body)
    assert "the object is not JSON" in str(as_it_is)
    assert as_it_is == by_stages


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(PLAIN, id="a name and a text"),
        pytest.param({**PLAIN, "data": {"a": "", "b.c": "é", "_": "x" * 10_000}}, id="several texts"),
        pytest.param({**PLAIN, "metadata": {"name": NAME, "namespace": "default"}}, id="a namespace"),
        pytest.param(LABELLED, id="labels and annotations"),
    ],
)
def test_ordinary_objects_are_made_in_one_go(body: Object) -> None:
    made = plain.new(SERVED, make_call("create", CONFIG_MAPS, body=body), options.WriteOptions("tester"), NOW)
    assert made is not None
    assert made["data"] == body["data"]


async def test_who_sent_an_object_may_change_it_afterwards(bench: Bench) -> None:
    body: Object = orjson.loads(orjson.dumps(LABELLED))
    await bench.create(CONFIG_MAPS, body)
    for part in (body["data"], body["metadata"], body["metadata"]["labels"], body["metadata"]["annotations"]):
        part.clear()
    stored = await bench.get(CONFIG_MAPS, NAME)
    held = next(each for each in bench.store.scan(collection("default")) if each.key.endswith(NAME)).object
    assert stored == held
    assert stored["data"] == LABELLED["data"]
    assert stored["metadata"].items() >= LABELLED["metadata"].items()


async def nothing(bench: Bench) -> None:
    """The server is as it is."""


async def namespace_goes(bench: Bench) -> None:
    held = make(CONFIG_MAPS, "held", finalizers=["example.com/x"])
    await bench.create(NAMESPACES, make(NAMESPACES, "going"), namespace="")
    await bench.create(CONFIG_MAPS, held, namespace="going")
    await bench.delete(NAMESPACES, "going", namespace="")


async def name_is_taken(bench: Bench) -> None:
    await bench.create(CONFIG_MAPS, PLAIN)


async def namesake_goes(bench: Bench) -> None:
    await bench.create(CONFIG_MAPS, {**PLAIN, "metadata": {"name": NAME, "finalizers": ["example.com/x"]}})
    await bench.delete(CONFIG_MAPS, NAME)


async def policy_denies(bench: Bench) -> None:
    await bind(bench, policy("object.data.key != 'text'", rules=[CREATES]))


async def policy_warns(bench: Bench) -> None:
    await bind(bench, policy("object.data.key != 'text'", rules=[CREATES]), "Warn")


def webhook_is_gone(kind: str) -> Callable[[Bench], Awaitable[None]]:
    async def prepare(bench: Bench) -> None:
        hook: Object = {
            "name": "gone.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1"},
            "rules": [CREATES],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        plural = f"{kind.lower()}s"
        call = make_call("create", CONFIG_MAPS, body={"metadata": {"name": "gone"}, "webhooks": [hook]}, namespace="")
        call.group, call.plural = "admissionregistration.k8s.io", plural
        await bench.api.call(call)

    return prepare


JANE = User("jane", ("system:authenticated",))


@pytest.fixture
async def small(store: Store) -> AsyncIterator[Bench]:
    """A server with hardly any room left."""
    bench = await Bench.start(store, define=False, quota=30_000)
    for number in range(9):
        await bench.create(CONFIG_MAPS, {**PLAIN, "metadata": {"name": f"c{number}"}, "data": {"key": "x" * 2000}})
    yield bench
    await bench.api.close()


@pytest.mark.parametrize(
    ("prepare", "more", "said"),
    [
        pytest.param(nothing, {"namespace": "nowhere"}, 'namespaces "nowhere" not found', id="no such namespace"),
        pytest.param(namespace_goes, {"namespace": "going"}, "being terminated", id="namespace goes"),
        pytest.param(name_is_taken, {}, "already exists", id="name is taken"),
        pytest.param(name_is_taken, {"options": {"dryRun": "All"}}, "already exists", id="name is taken, dry run"),
        pytest.param(namesake_goes, {}, "object is being deleted", id="namesake goes"),
        pytest.param(policy_denies, {}, "denied request", id="policy denies"),
        pytest.param(policy_denies, {"options": {"dryRun": "All"}}, "denied request", id="policy denies, dry run"),
        pytest.param(policy_warns, {}, "Validation failed", id="policy warns"),
        pytest.param(webhook_is_gone("ValidatingWebhookConfiguration"), {}, "gone.example.com", id="webhook judges"),
        pytest.param(webhook_is_gone("MutatingWebhookConfiguration"), {}, "gone.example.com", id="webhook changes"),
        pytest.param(nothing, {"user": JANE}, 'User "jane" cannot create', id="no right"),
    ],
)
async def test_nothing_gets_past_what_a_server_holds_against_it(
    bench: Bench, prepare: Callable[[Bench], Awaitable[None]], more: dict[str, Any], said: str
) -> None:
    await prepare(bench)
    as_it_is, by_stages = await both_answers(bench, PLAIN, **more)
    assert said in str(as_it_is)
    assert as_it_is == by_stages


async def test_nor_past_a_quota(small: Bench) -> None:
    as_it_is, by_stages = await both_answers(small, {**PLAIN, "data": {"key": "x" * 9000}})
    assert "exceeded quota" in str(as_it_is)
    assert as_it_is == by_stages
