"""What the client wants to read: the Accept header, decided once per distinct value and remembered.

JSON is always served, and YAML; protobuf is not, which Go clients can live with: they list JSON as a fallback. A
Table or the metadata alone is asked for with parameters: `application/json;as=Table;v=v1;g=meta.k8s.io`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from steelyard.kube import errors
from steelyard.kube.server.call import Representation

Format = Literal["json", "yaml"]

_FORMATS: Final[dict[str, Format]] = {
    "application/json": "json",
    "application/yaml": "yaml",
    "application/*": "json",
    "*/*": "json",
}
_REPRESENTATIONS: Final[dict[str, Representation]] = {
    "": "object",
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}


@dataclass(frozen=True, slots=True)
class Accepted:
    format: Format = "json"
    representation: Representation = "object"


@lru_cache(maxsize=256)
def accepted(header: str) -> Accepted:
    """The first of the client's wishes, by weight and then as listed, that can be met. Raises NotAcceptable."""
    if not header.strip():
        return Accepted()
    for media_type, parameters in by_weight(header):
        format_ = _FORMATS.get(media_type)
        representation = _REPRESENTATIONS.get(parameters.get("as", ""))
        if format_ is None or representation is None:
            continue
        if representation != "object" and (parameters.get("g"), parameters.get("v")) != ("meta.k8s.io", "v1"):
            continue
        return Accepted(format_, representation)
    raise errors.NotAcceptable("only the following media types are accepted: application/json, application/yaml")


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
