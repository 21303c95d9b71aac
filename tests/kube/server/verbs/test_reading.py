"""get and list: state, selection, pages, representations."""

from __future__ import annotations

import base64

import orjson
import pytest

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS, Resource
from tests.kube.server.bench import CLUSTER_PARTS, WIDGETS, Bench, decoded, make, widget


@pytest.fixture
async def seven(bench: Bench) -> Bench:
    """Seven widgets, the even ones labelled."""
    for index in range(7):
        labels = {"parity": "even"} if index % 2 == 0 else {}
        color = "blue" if index == 3 else "red"
        await bench.create(WIDGETS, widget(f"w{index}", {"size": index, "color": color}, labels=labels))
    return bench


async def test_a_list_is_the_items_at_one_revision(seven: Bench) -> None:
    listed = await seven.list(WIDGETS)
    assert (listed["kind"], listed["apiVersion"]) == ("WidgetList", "example.com/v1")
    assert listed["metadata"] == {"resourceVersion": str(seven.store.revision), "continue": ""}
    assert [objects.name(item) for item in listed["items"]] == [f"w{index}" for index in range(7)]


async def test_a_list_is_of_one_namespace_or_of_all(bench: Bench) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "other"))
    await bench.create(NAMESPACES, make(NAMESPACES, "othermore"))
    await bench.create(WIDGETS, widget("a"))
    await bench.create(WIDGETS, widget("b"), namespace="other")
    await bench.create(WIDGETS, widget("c"), namespace="othermore")
    assert await bench.names(WIDGETS, namespace="other") == ["b"]
    assert await bench.names(WIDGETS, namespace="") == ["a", "b", "c"]
    assert await bench.names(WIDGETS, namespace="absent") == []


@pytest.mark.parametrize(
    "options, names",
    [
        ({"labelSelector": "parity=even"}, ["w0", "w2", "w4", "w6"]),
        ({"labelSelector": "!parity"}, ["w1", "w3", "w5"]),
        ({"fieldSelector": "metadata.name=w3"}, ["w3"]),
        ({"fieldSelector": "metadata.name!=w3", "labelSelector": "!parity"}, ["w1", "w5"]),
        ({"fieldSelector": "metadata.namespace=default,metadata.name=w1"}, ["w1"]),
        ({"fieldSelector": "spec.color=blue"}, ["w3"]),
        ({"fieldSelector": "metadata.name=absent"}, []),
    ],
)
async def test_selectors(seven: Bench, options: dict[str, str], names: list[str]) -> None:
    assert await seven.names(WIDGETS, **options) == names


async def test_fields_that_cannot_be_selected_by(seven: Bench) -> None:
    with pytest.raises(errors.BadRequest, match=r"field label not supported: spec.size"):
        await seven.list(WIDGETS, fieldSelector="spec.size=1")
    with pytest.raises(errors.BadRequest):
        await seven.list(WIDGETS, labelSelector="a in")


async def test_fields_of_built_in_kinds(bench: Bench) -> None:
    secret: Object = {**make(SECRETS, "s"), "type": "example.com/key"}
    await bench.create(SECRETS, secret)
    await bench.create(SECRETS, make(SECRETS, "t"))
    assert await bench.names(SECRETS, fieldSelector="type=example.com/key") == ["s"]
    assert "default" in await bench.names(NAMESPACES, fieldSelector="status.phase=Active")


async def test_pages_show_one_revision(seven: Bench) -> None:
    first = await seven.list(WIDGETS, limit="3")
    assert [objects.name(item) for item in first["items"]] == ["w0", "w1", "w2"]
    assert first["metadata"]["remainingItemCount"] == 4
    await seven.delete(WIDGETS, "w4")
    await seven.create(WIDGETS, widget("w33"))
    second = await seven.list(WIDGETS, limit="3", **{"continue": first["metadata"]["continue"]})
    assert [objects.name(item) for item in second["items"]] == ["w3", "w4", "w5"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert second["metadata"]["remainingItemCount"] == 1
    third = await seven.list(WIDGETS, limit="3", **{"continue": second["metadata"]["continue"]})
    assert [objects.name(item) for item in third["items"]] == ["w6"]
    assert not third["metadata"].get("continue")


async def test_who_takes_any_revision_gets_everything_at_once(seven: Bench) -> None:
    found = await seven.list(WIDGETS, limit="3", resourceVersion="0")
    assert len(found["items"]) == 7
    assert found["metadata"]["continue"] == ""


async def test_pages_of_selected_objects(seven: Bench) -> None:
    first = await seven.list(WIDGETS, limit="3", labelSelector="parity=even")
    assert [objects.name(item) for item in first["items"]] == ["w0", "w2", "w4"]
    assert "remainingItemCount" not in first["metadata"]
    token = first["metadata"]["continue"]
    assert await seven.names(WIDGETS, limit="3", labelSelector="parity=even", **{"continue": token}) == ["w6"]


async def test_a_full_page_with_anything_behind_it_is_continued(seven: Bench) -> None:
    """Whether what follows matches is not known before it is asked for."""
    first = await seven.list(WIDGETS, limit="3", labelSelector="parity!=even")
    assert [objects.name(item) for item in first["items"]] == ["w1", "w3", "w5"]
    token = first["metadata"]["continue"]
    assert await seven.names(WIDGETS, limit="3", labelSelector="parity!=even", **{"continue": token}) == []
    whole = await seven.list(WIDGETS, limit="4", labelSelector="parity=even")
    assert whole["metadata"]["continue"] == ""


async def test_a_page_of_a_compacted_revision_is_expired(seven: Bench) -> None:
    first = await seven.list(WIDGETS, limit="3")
    await seven.delete(WIDGETS, "w4")
    await seven.store.compact(seven.store.revision)
    with pytest.raises(errors.Expired):
        await seven.list(WIDGETS, limit="3", **{"continue": first["metadata"]["continue"]})


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "%%%",
        base64.urlsafe_b64encode(b"[]").decode(),
        base64.urlsafe_b64encode(b'{"rv":-1,"start":"a","left":1}').decode(),
    ],
)
async def test_a_token_of_nobody_is_a_bad_request(seven: Bench, token: str) -> None:
    with pytest.raises(errors.BadRequest):
        await seven.list(WIDGETS, **{"continue": token})


async def test_revisions_asked_for(seven: Bench) -> None:
    revision = str(seven.store.revision)
    await seven.delete(WIDGETS, "w0")
    assert len(await seven.names(WIDGETS, resourceVersion="0")) == 6
    assert len(await seven.names(WIDGETS, resourceVersion=revision)) == 6
    exact = await seven.list(WIDGETS, resourceVersion=revision, resourceVersionMatch="Exact")
    assert len(exact["items"]) == 7
    assert exact["metadata"]["resourceVersion"] == revision
    with pytest.raises(errors.Timeout, match="Too large resource version"):
        await seven.list(WIDGETS, resourceVersion="100000")
    with pytest.raises(errors.Timeout, match="Too large resource version"):
        await seven.get(WIDGETS, "w1", resourceVersion="100000")
    for options in (
        {"resourceVersion": "x"},
        {"limit": "x"},
        {"limit": "99999999999999999999"},
    ):
        with pytest.raises(errors.BadRequest):
            await seven.list(WIDGETS, **options)
    for options in (
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
        {"resourceVersionMatch": "Near", "resourceVersion": "5"},
    ):
        with pytest.raises(errors.Invalid):
            await seven.list(WIDGETS, **options)


async def test_the_largest_limit_is_none(seven: Bench) -> None:
    found = await seven.list(WIDGETS, limit=str(2**63 - 1))
    assert len(found["items"]) == 7
    assert not found["metadata"].get("continue")


async def test_get_of_what_is_not_there(bench: Bench) -> None:
    with pytest.raises(errors.NotFound, match=r'widgets.example.com "a" not found'):
        await bench.get(WIDGETS, "a")
    with pytest.raises(errors.NotFound, match="could not find the requested resource"):
        await bench.get(Resource("example.com", "v1", "gadgets", "Gadget"), "a")
    with pytest.raises(errors.NotFound):
        await bench.get(CLUSTER_PARTS, "a", subresource="status")


async def test_metadata_alone(seven: Bench) -> None:
    one = await seven.get(WIDGETS, "w1", representation="metadata")
    assert (one["kind"], one["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert objects.name(one) == "w1"
    assert "spec" not in one
    many = await seven.list(WIDGETS, representation="metadata")
    assert many["kind"] == "PartialObjectMetadataList"
    assert len(many["items"]) == 7


async def test_tables_show_the_columns_of_the_definition(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a", {"size": 4}))
    conditions = [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]
    await bench.patch(WIDGETS, "a", {"status": {"conditions": conditions}}, subresource="status")
    bench.clock.advance(312)
    table = await bench.list(WIDGETS, representation="table")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size", "Ready", "Color", "Age"]
    assert table["rows"][0]["cells"] == ["a", 4, "True", "red", "5m12s"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    whole = await bench.get(WIDGETS, "a", representation="table", includeObject="Object")
    assert whole["rows"][0]["object"]["spec"]["size"] == 4
    bare = await bench.get(WIDGETS, "a", representation="table", includeObject="None")
    assert bare["rows"][0]["object"] is None
    with pytest.raises(errors.BadRequest):
        await bench.get(WIDGETS, "a", representation="table", includeObject="Some")


async def test_tables_of_built_in_kinds_render_any_object(bench: Bench) -> None:
    """Columns never fail, whatever an object lacks."""
    table = await bench.list(NAMESPACES, representation="table")
    assert table["rows"][0]["cells"][:2] == ["default", "Active"]


async def test_answers_are_the_stored_bytes(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a"))
    reply = await bench.call("get", WIDGETS, "a")
    assert reply.record is not None
    assert reply.raw is reply.record.value
    assert decoded(reply) == orjson.loads(reply.record.value)


async def test_items_of_built_in_kinds_do_not_repeat_their_type(bench: Bench) -> None:
    await bench.create(CONFIG_MAPS, make(CONFIG_MAPS, "a"))
    listed = await bench.list(CONFIG_MAPS)
    assert (listed["kind"], listed["metadata"].keys()) == ("ConfigMapList", {"resourceVersion"})
    assert listed["items"][0].keys() == {"metadata"}
    single = await bench.get(CONFIG_MAPS, "a")
    assert (single["kind"], single["apiVersion"]) == ("ConfigMap", "v1")
