"""Server-side apply as its callers see it: what comes back, what is refused, and what is left alone."""

from typing import Any, Final

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.schema import parse
from steelyard.kube.server.apply import apply, managedfields

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_SCHEMA: Final = parse.from_openapi({
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer"},
                "labels": {"type": "object", "additionalProperties": _TEXT},
                "template": {"type": "object", "properties": {"image": _TEXT, "command": _TEXTS}},
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": _TEXT, "port": {"type": "integer"}}},
                },
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": _TEXT},
                "values": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "embedded": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
            },
        },
        "status": {"type": "object", "properties": {"phase": _TEXT}},
    },
})  # fmt: skip
_V1: Final = "example.com/v1"


def thing(spec: Object | None = None, **metadata: Any) -> Object:
    obj: Object = {"apiVersion": _V1, "kind": "Thing", "metadata": {"name": "x", "namespace": "default", **metadata}}
    return obj if spec is None else {**obj, "spec": spec}


def applied(
    live: Object | None,
    spec: Object | None,
    *,
    by: str = "a",
    force: bool = False,
    now: str = "2024-01-01T00:00:00Z",
    **metadata: Any,
) -> Object:
    obj = thing(spec, **metadata)
    return apply.apply(_SCHEMA, live, obj, manager=by, force=force, api_version=_V1, now=now)


def updated(before: Object | None, after: Object, *, by: str = "u", now: str = "2024-01-01T00:00:00Z") -> Object:
    return apply.track_update(_SCHEMA, before, after, manager=by, api_version=_V1, now=now)


def managers(obj: Object) -> dict[str, Any]:
    """Manager and operation of each entry, with the fields."""
    entries = objects.sequence(objects.metadata(obj).get("managedFields"))
    return {f"{entry['manager']}:{entry['operation']}": entry["fieldsV1"] for entry in entries}


def test_applying_the_same_again_gives_back_the_live_object_itself() -> None:
    live = applied(None, {"replicas": 1, "ports": [{"name": "http", "port": 80}]})
    assert applied(live, {"ports": [{"port": 80, "name": "http"}], "replicas": 1}, now="2024-01-01T00:00:05Z") is live


def test_an_update_that_changes_nothing_keeps_managed_fields_as_they_are() -> None:
    live = updated(None, thing({"replicas": 1}))
    again = updated(live, objects.copy(live), by="other", now="2024-01-01T00:00:09Z")
    assert again == live


def test_a_client_that_drops_managed_fields_does_not_destroy_them() -> None:
    live: Object = {**updated(None, thing({"replicas": 1})), "status": {}}
    after = updated(live, {**thing({"replicas": 1}, labels={"a": "b"}), "status": {}}, by="other")
    assert managers(after) == {
        "u:Update": {"f:spec": {".": {}, "f:replicas": {}}},
        "other:Update": {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}},
    }


def test_one_conflict_is_told_in_one_line() -> None:
    live = updated(None, thing({"replicas": 1}), by="kubectl-client-side-apply")
    with pytest.raises(errors.Conflict) as raised:
        applied(live, {"replicas": 2})
    assert raised.value.message == (
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using example.com/v1: .spec.replicas'
    )
    assert raised.value.causes == (
        errors.Cause(
            ".spec.replicas", "FieldManagerConflict", 'conflict with "kubectl-client-side-apply" using example.com/v1'
        ),
    )


def test_several_conflicts_are_listed_by_manager() -> None:
    live = applied(None, {"replicas": 1, "ports": [{"name": "http", "port": 80}]}, by="b")
    live = applied(live, {"labels": {"x": "1"}}, by="a")
    with pytest.raises(errors.Conflict) as raised:
        applied(live, {"replicas": 2, "ports": [{"name": "http", "port": 81}], "labels": {"x": "2"}}, by="c")
    assert raised.value.message == (
        'Apply failed with 3 conflicts: conflicts with "a":\n- .spec.labels.x\n'
        'conflicts with "b":\n- .spec.replicas\n- .spec.ports[name="http"].port'
    )
    assert len(raised.value.causes) == 3


def test_a_conflict_with_a_subresource_names_it() -> None:
    live = apply.track_update(
        _SCHEMA,
        thing({"replicas": 1}, managedFields=[{}], uid="1"),
        thing({"replicas": 2}, uid="1"),
        manager="scaler",
        api_version=_V1,
        now="2024-01-01T00:00:00Z",
        subresource="scale",
    )
    with pytest.raises(errors.Conflict, match=r'conflict with "scaler" with subresource "scale" using'):
        applied(live, {"replicas": 3})


def test_what_a_manager_no_longer_applies_is_removed_unless_others_own_it() -> None:
    live = applied(None, {"replicas": 1, "labels": {"a": "1", "b": "1"}, "template": {"image": "i"}}, by="a")
    live = applied(live, {"labels": {"b": "1"}}, by="b")
    live = applied(live, {"replicas": 1}, by="a")
    assert live["spec"] == {"replicas": 1, "labels": {"b": "1"}}


def test_a_map_that_somebody_owns_is_null_when_its_last_entry_goes() -> None:
    """As upstream leaves it: built-in kinds read it as absent, and a schema that allows no null refuses it."""
    live = updated(None, thing({"labels": {"u": "1"}}))
    live = applied(live, {"labels": {"a": "1"}})
    live = updated(live, thing({"labels": {"a": "1"}}))
    live = applied(live, {"replicas": 1})
    assert live["spec"] == {"replicas": 1, "labels": None}
    assert applied(live, {"replicas": 1}) is live


def test_an_embedded_object_has_metadata_of_its_own() -> None:
    embedded = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "finalizers": ["f"]},
        "data": {"k": "v"},
    }
    live = applied(None, {"embedded": embedded})
    assert managers(live)["a:Apply"]["f:spec"]["f:embedded"]["f:metadata"] == {
        "f:finalizers": {'v:"f"': {}},
        "f:name": {},
    }


@pytest.mark.parametrize(
    "obj, message",
    [
        pytest.param({**thing({}), "apiVersion": "v2"}, "invalid object type: /v2, Kind=Thing", id="another version"),
        pytest.param(thing({}, managedFields=[]), "metadata.managedFields must be nil", id="with managed fields"),
    ],
)
def test_what_is_no_configuration_is_a_bad_request(obj: Object, message: str) -> None:
    with pytest.raises(errors.BadRequest) as raised:
        apply.apply(_SCHEMA, None, obj, manager="a", force=True, api_version=_V1, now="2024-01-01T00:00:00Z")
    assert raised.value.message == message


@pytest.mark.parametrize(
    "obj, message",
    [
        pytest.param(
            thing({"repicas": 1}),
            "failed to create typed patch object (default/x; example.com/v1, Kind=Thing): "
            ".spec.repicas: field not declared in schema",
            id="a field that is not declared",
        ),
        pytest.param(
            thing({"replicas": "1"}),
            ".spec.replicas: expected numeric (int or float), got string",
            id="a text for a number",
        ),
        pytest.param(thing({"labels": []}), ".spec.labels: expected map, got &{[]}", id="a list for a map"),
        pytest.param(thing({"tags": {}}), ".spec.tags: expected list, got &{map[]}", id="a map for a list"),
        pytest.param(
            thing({"replicas": {}}),
            ".spec.replicas: expected numeric (int or float), got map[string]interface {}",
            id="a map for a number",
        ),
        pytest.param(
            thing({"replicas": True}),
            ".spec.replicas: expected numeric (int or float), got bool",
            id="a boolean for a number",
        ),
        pytest.param(thing({"tags": [{}]}), "has an element that's a map type", id="a map in a set"),
        pytest.param(thing({"tags": [None]}), "has an element that's an explicit null", id="a null in a set"),
        pytest.param(thing({"ports": ["x"]}), "may not have non-map elements", id="a text in a list of maps"),
        pytest.param(
            thing({"ports": [{"name": "a"}, {"name": "a"}], "tags": ["t", "t"]}),
            'errors:\n  .spec.ports: duplicate entries for key [name="a"]\n'
            '  .spec.tags: duplicate entries for key [="t"]',
            id="all problems at once",
        ),
    ],
)
def test_what_the_schema_does_not_allow_is_refused_as_upstream_does(obj: Object, message: str) -> None:
    with pytest.raises(errors.Unclassified) as raised:
        apply.apply(_SCHEMA, None, obj, manager="a", force=True, api_version=_V1, now="2024-01-01T00:00:00Z")
    assert message in raised.value.message


def test_kubectl_keeps_the_annotation_of_client_side_apply_current() -> None:
    annotation = "kubectl.kubernetes.io/last-applied-configuration"
    last = orjson.dumps(thing({"replicas": 1})).decode()
    live = updated(None, thing({"replicas": 1}, annotations={annotation: last}), by="kubectl-client-side-apply")
    live = applied(live, {"replicas": 2}, by="kubectl")
    assert live["spec"] == {"replicas": 2}
    assert orjson.loads(objects.annotations(live)[annotation]) == thing({"replicas": 2})
    assert applied(live, {"replicas": 2}, by="kubectl") is live


def test_entries_of_another_version_are_kept_and_respected() -> None:
    live = applied(None, {"replicas": 1})
    entry = {**live["metadata"]["managedFields"][0], "manager": "old", "apiVersion": "example.com/v1alpha1"}
    live = {**live, "metadata": {**live["metadata"], "managedFields": [entry]}}
    with pytest.raises(errors.Conflict, match=r'conflict with "old": \.spec\.replicas'):
        applied(live, {"replicas": 2}, by="new")
    after = applied(live, {"labels": {"a": "b"}}, by="new")
    assert entry in after["metadata"]["managedFields"]


def test_a_write_that_ended_in_no_change_gives_back_what_was_there() -> None:
    before = updated(None, thing({"replicas": 1}))
    stamped = objects.copy(before)
    stamped["metadata"]["managedFields"][0]["time"] = "2030-01-01T00:00:00Z"
    assert managedfields.keep_times(before, stamped) is before
    changed = updated(before, thing({"replicas": 2}), now="2030-01-01T00:00:00Z")
    assert managedfields.keep_times(before, changed) is changed


# Maps and lists that merge are not empty here: applying an empty one in place of a full one takes it away at first, or
# leaves a null, and puts it back, empty, the next time. So it is upstream.
_VALUES: Final[st.SearchStrategy[Any]] = st.recursive(
    st.one_of(st.booleans(), st.integers(0, 1), st.sampled_from("ab"), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("kl"), inner, min_size=1, max_size=2)
    ),
    max_leaves=5,
)
_TEMPLATES: Final[st.SearchStrategy[Object]] = st.fixed_dictionaries(
    {"image": st.sampled_from("xy")}, optional={"command": st.lists(st.sampled_from("xy"), max_size=2)}
)
_SPECS: Final[st.SearchStrategy[Object]] = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.integers(0, 2),
        "labels": st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), min_size=1, max_size=3),
        "template": _TEMPLATES,
        "ports": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("pqr")}, optional={"port": st.integers(0, 2)}),
            min_size=1,
            max_size=3,
            unique_by=lambda item: str(item["name"]),
        ),
        "tags": st.lists(st.sampled_from("tuv"), min_size=1, max_size=3, unique=True),
        "values": st.dictionaries(st.sampled_from("kl"), _VALUES, min_size=1, max_size=2),
    },
)


@example([("a", {"values": {"k": {"k": None}}}), ("a", {"values": {"k": None}})])
@given(st.lists(st.tuples(st.sampled_from(["a", "b", "u"]), _SPECS), min_size=1, max_size=5))
def test_applying_twice_is_applying_once(steps: list[tuple[str, Object]]) -> None:
    live: Object | None = None
    for by, spec in steps:
        if by == "u":
            live = updated(live, thing({"replicas": 1, **spec}))
            continue
        live = applied(live, {"replicas": 1, **spec}, by=by, force=True)
        assert applied(live, {"replicas": 1, **spec}, by=by, now="2030-01-01T00:00:00Z") is live


@given(_SPECS, _SPECS)
def test_applying_and_withdrawing_leaves_what_was_there(first: Object, second: Object) -> None:
    live = applied(None, {"replicas": 7, **first}, by="a")
    more = {key: value for key, value in second.items() if key not in live["spec"]}
    withdrawn = applied(applied(live, more, by="b"), None, by="b")
    assert withdrawn["spec"] == live["spec"]
    assert managers(withdrawn) == managers(live)


@given(_SPECS, _SPECS)
def test_the_last_to_force_gets_its_way(first: Object, second: Object) -> None:
    live = applied(applied(None, first, by="a"), second, by="b", force=True)
    for key in second.keys() & {"replicas"}:
        assert live["spec"][key] == second[key]
    for key in second.keys() & {"labels"}:
        assert second[key].items() <= live["spec"][key].items()
    for key in second.keys() & {"tags"}:
        assert set(second[key]) <= set(live["spec"][key])
