"""What Go's decoders say of the answers of webhooks that they cannot read; people search for these words."""

from __future__ import annotations

from typing import Any, Final, cast

from steelyard.kube.objects import Object

_TYPE_META: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_SCHEME: Final = "pkg/runtime/scheme.go:110"
_VERSIONS: Final = ("v1", "v1beta1")


def json_error(error: Exception) -> str:
    return "unexpected end of JSON input" if "unexpected end" in str(error) else str(error)


def mismatch(value: Any) -> str:
    match value:
        case bool():
            kind = "bool"
        case int() | float():
            kind = "number"
        case str():
            kind = "string"
        case list():
            kind = "array"
        case _:
            kind = "object"
    return f"json: cannot unmarshal {kind}"


def kind_problem(sent: Object, answer: Any) -> str:
    """Why the answer is not of the kind that was sent; nothing if it is, or if it does not say what it is."""
    if answer is None:
        return ""
    if not isinstance(answer, dict):
        return f"couldn't get version/kind; json parse error: {mismatch(answer)} into Go value of type {_TYPE_META}"
    given = cast(Object, answer)
    api_version, kind = str(given.get("apiVersion") or ""), str(given.get("kind") or "")
    sent_version, sent_kind = str(sent["apiVersion"]), str(sent["kind"])
    if api_version in ("", sent_version) and kind in ("", sent_kind):
        return ""
    group, _, version = api_version.rpartition("/")
    own_group, _, own_version = sent_version.rpartition("/")
    if group == own_group and version in _VERSIONS and kind == sent_kind:
        return f"converting ({version}.{kind}) to ({own_version}.{sent_kind}): unknown conversion"
    return f'no kind "{kind}" is registered for version "{api_version}" in scheme "{_SCHEME}"'
