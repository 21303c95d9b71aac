"""A patch from its body to the document, and the words for what goes wrong: codes and messages as kube-apiserver's."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.kube import errors
from steelyard.kube.builtin import tables
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, Resource
from steelyard.kube.schema.model import ANY
from steelyard.kube.server.bodies.options import FieldValidation, WriteOptions
from steelyard.kube.server.call import Call, PatchType, Payload, User
from steelyard.kube.server.patch import patching, structs
from steelyard.kube.server.patch.patching import Patched, Target

BUILTIN = Target(CONFIG_MAPS, tables.schema("", "v1", "ConfigMap"))
CUSTOM = Target(Resource("example.com", "v1", "widgets", "Widget"), ANY, custom=True)
CURRENT: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"uid": "1", "labels": {"b": "<", "a": "&"}, "name": "a"},
    "data": {"k": "v", "j": "w"},
}


def patched(
    patch_type: PatchType, text: str, validation: FieldValidation = "Warn", target: Target = BUILTIN
) -> Patched:
    call = Call("patch", "", "v1", "configmaps", User("jane"), patch_type=patch_type)
    call.payload = Payload("", text.encode())
    return patching.apply(target, call, CURRENT, WriteOptions("m", field_validation=validation))


def test_objects_that_a_patch_passes_through_are_quoted_in_order_and_others_as_go_writes_them() -> None:
    merged = patched("merge", '{"data":{"l":"x"}}')
    metadata = '"metadata":{"name":"a","uid":"1","labels":{"a":"\\u0026","b":"\\u003c"}}'
    expected = f'{{"apiVersion":"v1","data":{{"j":"w","k":"v","l":"x"}},"kind":"ConfigMap",{metadata}}}'
    assert merged.quoted() == expected
    operated = patched("json", '[{"op":"add","path":"/metadata/labels/c","value":{"z":1,"y":2}}]')
    labels = '{"a":"\\u0026","b":"\\u003c","c":{"z":1,"y":2}}'
    assert f'"metadata":{{"labels":{labels},"name":"a","uid":"1"}}' in operated.quoted()
    custom = patched("merge", '{"data":{"l":"x"}}', target=CUSTOM)
    assert '"metadata":{"labels":{"a":"\\u0026","b":"\\u003c"},"name":"a","uid":"1"}' in custom.quoted()


def test_a_refusal_quotes_the_document() -> None:
    error = patched("merge", '{"kind":3,"metadata":null,"data":null}').refused("why")
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message == r' "" is invalid: patch: Invalid value: "{\"apiVersion\":\"v1\",\"kind\":3}": why'


NO_PATCHES: list[tuple[PatchType, FieldValidation, str, str]] = [
    ("merge", "Warn", "{", "error decoding patch: unexpected end of JSON input"),
    ("merge", "Ignore", "{", "Invalid JSON Patch"),
    ("merge", "Warn", "null", "Invalid JSON Patch"),
    (
        "merge",
        "Warn",
        "[]",
        "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
    ),
    ("merge", "Ignore", "3", "Invalid JSON Patch"),
    ("json", "Strict", "", "error decoding patch: unexpected end of JSON input"),
    ("json", "Ignore", "", "unexpected end of JSON input"),
    ("strategic", "Warn", "", "unexpected end of JSON input"),
    ("strategic", "Warn", "[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
]


@pytest.mark.parametrize(("patch_type", "validation", "text", "message"), NO_PATCHES)
def test_bodies_that_are_no_patches(
    patch_type: PatchType, validation: FieldValidation, text: str, message: str
) -> None:
    with pytest.raises(errors.BadRequest) as raised:
        patched(patch_type, text, validation)
    assert raised.value.message == message


def test_what_is_given_twice_in_a_patch_is_complained_of() -> None:
    text = '{"data":{"k":"1","k":"2"},"abc":{"c":1,"c":2}}'
    complaints = ['duplicate field "data.k"', 'duplicate field "abc.c"']
    assert patched("merge", text).complaints == complaints
    assert patched("strategic", text).complaints == complaints
    assert patched("merge", text, "Ignore").complaints == []


INCONVERTIBLE: list[tuple[Any, str]] = [
    ({"kind": 3}, "cannot convert int64 to string"),
    ({"metadata": {"generation": 1.5}}, "cannot convert float64 to int64"),
    ({"metadata": {"uid": 1}}, "cannot convert int64 to types.UID"),
    ({"metadata": "x"}, "cannot restore struct from: string"),
    ({"metadata": {"finalizers": "x"}}, "cannot restore slice from string"),
    (
        {"metadata": {"creationTimestamp": "x"}},
        'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
    ),
    ({"data": [1]}, "cannot restore map from slice"),
    ({"data": {"k": True}}, "unrecognized type: string"),
    ({"binaryData": {"k": "&"}}, "error decoding from json: illegal base64 data at input byte 0"),
    ({"immutable": "x"}, "unrecognized type: bool"),
]


@pytest.mark.parametrize(("value", "problem"), INCONVERTIBLE)
def test_what_cannot_be_converted(value: Any, problem: str) -> None:
    with pytest.raises(structs.Inconvertible) as raised:
        structs.convert("core/v1.ConfigMap", value)
    assert str(raised.value) == problem


def test_a_whole_number_with_a_point_becomes_an_integer() -> None:
    assert structs.convert("core/v1.ConfigMap", {"metadata": {"generation": 2.0}}) == {"metadata": {"generation": 2}}


def test_a_strategic_patch_that_fits_no_type_is_quoted_as_go_prints_it() -> None:
    with pytest.raises(errors.Invalid) as raised:
        patched("strategic", '{"data":[1,2.5,true,null,{"b":"x","a":1}]}')
    assert raised.value.message == (
        ' "" is invalid: patch: Invalid value: "map[data:[1 2.5 true <nil> map[a:1 b:x]]]": '
        "cannot restore map from slice"
    )
