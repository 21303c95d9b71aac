"""Fields that a kind does not have and fields given twice: what is complained of, and in which order."""

from __future__ import annotations

import orjson
import pytest

from steelyard.kube.server.bodies import bodies, strictness
from steelyard.kube.server.call import Payload

CONFIG_MAP = "core/v1.ConfigMap"
DEPLOYMENT = "apps/v1.Deployment"


def payload(text: str) -> Payload:
    return Payload("application/json", text.encode(), "json")


@pytest.mark.parametrize(
    ("name", "text", "complaints"),
    [
        pytest.param(CONFIG_MAP, '{"kind":"ConfigMap","data":{"a":"1"}}', [], id="nothing"),
        pytest.param(
            CONFIG_MAP,
            '{"abc":1,"metadata":{"name":"b","name":"b","zzz":1,"zzz":1,"labels":{"a":"b","a":"c"}},"data":{},"data":{}}',
            [
                'unknown field "abc"',
                'duplicate field "metadata.name"',
                'unknown field "metadata.zzz"',
                'duplicate field "metadata.labels.a"',
                'duplicate field "data"',
            ],
            id="in the order of the body, each once",
        ),
        pytest.param(
            DEPLOYMENT,
            '{"spec":{"template":{"spec":{"containers":[{},{"image":"a","image":"b","x":{"y":1,"y":2}}]}}}}',
            [
                'duplicate field "spec.template.spec.containers[1].image"',
                'unknown field "spec.template.spec.containers[1].x"',
            ],
            id="in lists, but not inside of what is unknown",
        ),
    ],
)
def test_built_in_kinds(name: str, text: str, complaints: list[str]) -> None:
    assert strictness.of_builtin(name, orjson.loads(text), payload(text)) == complaints


def test_custom_resources_tell_repetitions_first_and_metadata_before_the_rest() -> None:
    text = '{"abc":1,"metadata":{"zzz":1,"zzz":1},"spec":{"z":1,"z":{"a":1,"a":2},"ports":[{"name":"p","name":"q"}]}}'
    assert strictness.of_custom(["abc", "metadata.zzz", "spec.z"], payload(text)) == [
        'duplicate field "metadata.zzz"',
        'duplicate field "spec.z"',
        'duplicate field "spec.z.a"',
        'duplicate field "spec.ports[0].name"',
        'unknown field "metadata.zzz"',
        'unknown field "abc"',
        'unknown field "spec.z"',
    ]


def test_operations_of_a_json_patch_have_four_fields() -> None:
    text = '[{"op":"add","path":"/data","value":{"a":"1","a":"2"},"op":"add","foo":1,"Path":"x"}]'
    assert strictness.of_json_patch(payload(text), orjson.loads(text)) == [
        'json patch duplicate field "[0].value.a"',
        'json patch duplicate field "[0].op"',
        'json patch unknown field "[0].foo"',
        'json patch unknown field "[0].Path"',
    ]


@pytest.mark.parametrize(
    ("text", "may_repeat"),
    [
        ('{"a":1,"b":{"c":"x:y"}}', False),
        ('{ "a" : 1 , "b" : [ { "c" : "::" } ] }', False),
        ('{"a":1,"a":1}', True),
        ('{"a":{"b":1,"b":2}}', True),
        ('{"a":"\\u003a","a":"x"}', True),
    ],
)
def test_a_count_of_colons_tells_which_bodies_to_look_at(text: str, may_repeat: bool) -> None:
    assert bodies.may_repeat(text.encode(), orjson.dumps(orjson.loads(text))) is may_repeat


def test_yaml_is_one_complaint_and_a_warning_for_each_line() -> None:
    twice = Payload(
        "application/yaml", b"", "yaml", ('line 2: key "a" already set in map', "line 3: key 1 already set in map")
    )
    complaints = strictness.of_custom(["x"], twice)
    assert complaints == [
        'yaml: unmarshal errors:\n  line 2: key "a" already set in map\n  line 3: key 1 already set in map',
        'unknown field "x"',
    ]
    assert strictness.warnings(complaints) == (*twice.repeated, 'unknown field "x"')
