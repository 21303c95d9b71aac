"""What the client wants to read: the Accept header, decided once per distinct value and remembered.

JSON is always served, and YAML. Built-in kinds are also served as protocol buffers, but only to those who accept
neither: the stored form is JSON, and Go clients list it as a fallback. A Table or the metadata alone is asked for with
parameters: `application/json;as=Table;v=v1;g=meta.k8s.io`.
"""

from __future__ import annotations

from typing import Final, Literal, cast

from steelyard.frozen import frozen
from steelyard.kube import errors, remembering
from steelyard.kube.server.call import MetaVersion, Representation, Verb

Format = Literal["json", "yaml", "protobuf"]

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_FORMATS: Final[dict[str, Format]] = {
    "application/json": "json",
    "application/yaml": "yaml",
    "application/*": "json",
    "*/*": "json",
    PROTOBUF: "protobuf",
}
_ROUTED: Final = frozenset(("application/json", "application/yaml", PROTOBUF, "*/*"))
_MEDIA_TYPES: Final = f"application/json, application/yaml, {PROTOBUF}"
_STREAMS: Final = f"application/json;stream=watch, {PROTOBUF};stream=watch"
_REPRESENTATIONS: Final[dict[str, Representation]] = {
    "": "object",
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}
_LISTS: Final = frozenset(("list", "watch"))
_META_VERSIONS: Final = ("v1", "v1beta1")


@frozen
class Accepted:
    format: Format = "json"
    representation: Representation = "object"
    meta_version: MetaVersion = "v1"
    pretty: bool = False


@remembering.briefly(256, 1024)
def accepted(header: str, *, custom: bool = False, watch: bool = False, whole: bool = False) -> Accepted:
    """The first of the client's wishes, by weight and then as listed, that can be met. Raises NotAcceptable.

    `whole` is for what has no other representation: no Table and no metadata alone.
    """
    if not header.strip():
        return Accepted()
    wishes = [wish for wish in map(_wish, by_weight(header)) if wish is not None]
    if whole:
        wishes = [wish for wish in wishes if wish.representation == "object"]
    binary = [wish for wish in wishes if wish.format == "protobuf" and wish.representation == "object"]
    textual = [wish for wish in wishes if wish.format != "protobuf"]
    found = next(iter((*textual, *(() if custom else binary))), None)
    if found is None:
        raise errors.NotAcceptable(f"only the following media types are accepted: {_MEDIA_TYPES}")
    if watch and found.format != "json":
        raise errors.NotAcceptable(f"only the following media types are accepted: {_STREAMS}")
    return found


@remembering.briefly(512, 1024)
def of_resource(header: str, *, custom: bool, verb: Verb) -> Accepted:
    """The same for a request about a resource, with what upstream's router asks before. Raises NotAcceptable."""
    if not custom:
        check_route(header, lists=verb in _LISTS)
    return accepted(header, custom=custom, watch=verb == "watch")


def _wish(clause: tuple[str, dict[str, str]]) -> Accepted | None:
    media_type, parameters = clause
    format_ = _FORMATS.get(media_type)
    representation = _REPRESENTATIONS.get(parameters.get("as", ""))
    if format_ is None or representation is None:
        return None
    version = parameters.get("v", "v1")
    if representation != "object" and (parameters.get("g") != "meta.k8s.io" or version not in _META_VERSIONS):
        return None
    return Accepted(format_, representation, cast(MetaVersion, version), parameters.get("pretty") == "1")


@remembering.briefly(256, 1024)
def check_route(header: str, *, lists: bool = False) -> None:
    """What upstream's router asks of requests for built-in resources before anybody looks closer.

    Raises NotAcceptable.
    """
    named = [clause.partition(";")[0].strip().lower() for clause in header.split(",")]
    if header.strip() and not _ROUTED.intersection(named):
        available = f"{_MEDIA_TYPES}, {_STREAMS}" if lists else _MEDIA_TYPES
        raise errors.not_routed(f"406: Not Acceptable\n\nAvailable representations: {available}")


def check_json(header: str) -> None:
    """For what is served as JSON alone. Raises NotAcceptable."""
    named = {clause.partition(";")[0].strip().lower() for clause in header.split(",")}
    if header.strip() and not named & {"application/json", "*/*"}:
        raise errors.not_routed("406: Not Acceptable\n\nAvailable representations: application/json")


@remembering.briefly(256, 1024)
def of_errors(header: str) -> Format:
    """Errors have no other representation; whoever accepts none of their forms gets JSON."""
    formats: list[Format] = [
        _FORMATS[media_type] for media_type, given in by_weight(header) if media_type in _FORMATS and "as" not in given
    ]
    textual: list[Format] = [each for each in formats if each != "protobuf"]
    found = textual or formats
    return found[0] if found else "json"


def by_weight(header: str) -> list[tuple[str, dict[str, str]]]:
    """Media types with their parameters, dearest first."""
    clauses: list[tuple[float, str, dict[str, str]]] = []
    for clause in header.split(","):
        media_type, *given = (part.strip() for part in clause.split(";"))
        parameters = dict(part.split("=", 1) for part in given if "=" in part)
        try:
            weight = float(parameters.get("q", "1"))
        except ValueError:
            weight = 0.0
        if weight > 0:
            clauses.append((weight, media_type.lower(), parameters))
    clauses.sort(key=lambda clause: -clause[0])
    return [(media_type, parameters) for _, media_type, parameters in clauses]
