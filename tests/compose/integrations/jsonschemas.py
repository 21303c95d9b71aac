"""As much of JSON Schema (draft 07) as Backstage's schemas of resources use. A word that it does not know is a failure,
so that nothing passes unread."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool}
_SAID_ONLY = frozenset({"$schema", "$id", "description", "examples", "title", "default", "format"})


def _is(value: object, type_: str) -> bool:
    return isinstance(value, _TYPES[type_])


class Schemas:
    def __init__(self, folder: Path) -> None:
        documents = [json.loads(file.read_text(encoding="utf-8")) for file in folder.rglob("*.schema.json")]
        self._by_id = {str(each["$id"]): cast("dict[str, Any]", each) for each in documents}

    def problems(self, value: object, schema_id: str) -> list[str]:
        return list(self._check(value, self._by_id[schema_id], "", schema_id))

    def _check(self, value: Any, schema: dict[str, Any], where: str, document: str) -> Iterator[str]:
        for word, said in schema.items():
            match word:
                case _ if word in _SAID_ONLY:
                    pass
                case "$ref":
                    yield from self._check(value, *self._found(str(said), document, where))
                case "allOf":
                    for each in said:
                        yield from self._check(value, each, where, document)
                case "type":
                    if not _is(value, str(said)):
                        yield f"{where}: must be {said}"
                case "enum":
                    if value not in said:
                        yield f"{where}: must be one of {said}"
                case "required":
                    yield from (f"{where}.{key}: is missing" for key in said if key not in value)
                case "minLength":
                    if len(value) < said:
                        yield f"{where}: is too short"
                case "pattern":
                    if not re.search(said, value):
                        yield f"{where}: does not match {said}"
                case "items":
                    for index, each in enumerate(value):
                        yield from self._check(each, said, f"{where}[{index}]", document)
                case "properties" | "patternProperties" | "additionalProperties":
                    pass
                case _:
                    raise NotImplementedError(f"{document} says {word}")
        if isinstance(value, dict):
            yield from self._check_fields(cast("dict[str, Any]", value), schema, where, document)

    def _check_fields(self, value: dict[str, Any], schema: dict[str, Any], where: str, document: str) -> Iterator[str]:
        for key, each in value.items():
            own = [schema["properties"][key]] if key in schema.get("properties", {}) else []
            own += [said for pattern, said in schema.get("patternProperties", {}).items() if re.search(pattern, key)]
            for said in own:
                yield from self._check(each, said, f"{where}.{key}", document)
            if not own and schema.get("additionalProperties") is False:
                yield f"{where}.{key}: is no field"

    def _found(self, reference: str, document: str, where: str) -> tuple[dict[str, Any], str, str]:
        file, _, anchor = reference.partition("#")
        if anchor:
            raise NotImplementedError(f"{document} refers to {reference}")
        return self._by_id[file], where, file
