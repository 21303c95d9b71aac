"""Taking fields out of a value by a set of fields."""

from typing import Final

from steelyard.kube.objects import Object
from steelyard.kube.schema import parse
from steelyard.kube.server.apply import removal, shape
from steelyard.kube.server.apply.fieldset import FieldSet

_TEXT: Final = {"type": "string"}
_ITEM: Final = {"type": "object", "properties": {"name": _TEXT, "value": _TEXT}}
_ITEMS: Final = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": _ITEM,
}
_SPEC: Final = {"type": "object", "properties": {"size": _TEXT, "items": _ITEMS}}
_SHAPE: Final = shape.of(parse.from_openapi({"type": "object", "properties": {"spec": _SPEC}}))
_VALUE: Final[Object] = {"spec": {"size": "s", "items": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]}}


def test_members_are_removed_and_the_rest_stays() -> None:
    fields = FieldSet.from_json(
        {"f:spec": {"f:size": {}, "f:items": {'k:{"name":"a"}': {}, 'k:{"name":"b"}': {"f:value": {}}}}}
    )
    assert removal.remove(_SHAPE, _VALUE, fields.tree) == {"spec": {"items": [{"name": "b"}]}}
    assert _VALUE["spec"]["size"] == "s", "the value itself is left as it was"


def test_what_loses_all_it_has_becomes_null() -> None:
    fields = FieldSet.from_json({"f:spec": {"f:size": {}, "f:items": {'k:{"name":"a"}': {}, 'k:{"name":"b"}': {}}}})
    assert removal.remove(_SHAPE, _VALUE, fields.tree) == {"spec": {"items": None}}


def test_declared_fields_on_the_way_are_added_and_items_are_not() -> None:
    fields = FieldSet.from_json({"f:spec": {"f:items": {'k:{"name":"b"}': {"f:value": {}}}}})
    assert removal.with_named_fields(_SHAPE, fields.tree) == {
        "f:spec": {".": {}, "f:items": {".": {}, 'k:{"name":"b"}': {"f:value": {}}}}
    }
