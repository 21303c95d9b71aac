"""Everything that is wrong with an object that the API refused, at once: field, reason, the nearest valid word.

An API server stops at the first kind of mistake: with fields that it does not know, it looks no further, and with
values that the schema refuses it asks no rule and no policy. So it is asked again, without creating anything, each time
with what it has complained of mended or left out. Which words would be right stands in its answers and in the schema
that it serves, so this works for any kind.
"""

from __future__ import annotations

import contextlib
import difflib
import re
import sys
from collections.abc import Iterator, Sequence
from typing import cast

import orjson

from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

_STRICT = "strict decoding error: "
_COMPLAINT = re.compile(r'(unknown|duplicate) field "([^"]+)"')
_LISTED = re.compile(r'(?:"?[\w.-]+"?, (?:or )?)+"?[\w.-]+"?')
_WRONG_TYPE = re.compile(r"in body must be of type (\w+)")
_ECHO = re.compile(r"some validation rules were not checked|accessor error: ")
"""What a server adds where a mistake that it names keeps it from looking further."""
_POLICY = re.compile(r"^ValidatingAdmissionPolicy '[^']*' with binding '[^']*' denied request: ")
_PATH = re.compile(r"^((?:spec|metadata)(?:\.\w+|\[\d+\])*): ")
_ROUNDS = 4
_SIMILAR = 0.5
_LONGEST = 60


@frozen
class Mistake:
    field: str
    reason: str
    nearest: str = ""

    def __str__(self) -> str:
        text = f"{self.field}: {self.reason}" if self.field else self.reason
        return f"{text}; did you mean {self.nearest}?" if self.nearest else text


async def of(client: Client, resource: Resource, obj: Object, refused: errors.ApiError) -> list[Mistake]:
    """All of them, those of the refusal included."""
    schema = await _schema(client, resource)
    found = {(each.field, each.reason): each for each in _of_refusal(refused, obj, schema)}
    mended: set[str] = set()
    for _ in range(_ROUNDS):
        another = await _refusal(client, resource, _mended(obj, mended, schema))
        if another is None:
            break
        more = [each for each in _of_refusal(another, obj, schema) if each.field not in mended]
        found |= {(each.field, each.reason): each for each in more}
        mended |= {each.field for each in more if each.field}
        if not any(each.field for each in more):
            break
    return list(found.values())


def _mended(obj: Object, fields: set[str], schema: Object) -> Object:
    """The object with a valid word in place of each field where the schema lists some, and without the others and
    without items of lists."""
    made = objects.copy(obj)
    for field in sorted(fields, key=_turn):
        *path, last = _steps(field)
        place = objects.at(made, *path)
        valid = objects.sequence(_at(schema, field).get("enum"))
        if isinstance(place, list) and isinstance(last, int):
            del cast("list[object]", place)[last : last + 1]
        elif isinstance(place, dict) and valid:
            cast(Object, place)[str(last)] = valid[0]
        elif isinstance(place, dict):
            cast(Object, place).pop(str(last), None)
    return made


def _turn(field: str) -> int:
    """Items of lists come last, and from the end: what goes must not change the places of others."""
    last = _steps(field)[-1]
    return -last if isinstance(last, int) else -sys.maxsize


def told(what: str, mistakes: Sequence[Mistake]) -> str:
    if len(mistakes) == 1:
        return f"{what}: {mistakes[0]}"
    return "\n".join((f"{what} has {len(mistakes)} mistakes:", *(f"  {each}" for each in mistakes)))


async def _refusal(client: Client, resource: Resource, obj: Object) -> errors.ApiError | None:
    """What the server says to the object as a new one, other than that it, or its namespace, is there or not."""
    namespaces = dict.fromkeys((objects.namespace(obj), "default")) if resource.namespaced else [""]
    for namespace in namespaces:
        body = {**obj, "metadata": {**objects.metadata(obj), **({"namespace": namespace} if namespace else {})}}
        path = f"{resource.path(namespace)}?dryRun=All&fieldValidation=Strict"
        try:
            await client.request("POST", path, body=body)
        except errors.NotFound:
            continue
        except (errors.BadRequest, errors.Invalid) as error:
            return error
        except errors.ApiError:
            return None
        return None
    return None


def _of_refusal(error: errors.ApiError, obj: Object, schema: Object) -> Iterator[Mistake]:
    if _STRICT in error.message:
        for what, field in _COMPLAINT.findall(error.message.partition(_STRICT)[2]):
            is_unknown = what == "unknown"
            nearest = _nearest_field(schema, field) if is_unknown else ""
            yield Mistake(field, f"{what} field" if is_unknown else "given twice", nearest)
        return
    causes = [cause for cause in error.causes if cause.message and not _ECHO.search(cause.message)]
    for cause in causes:
        field, message = _located(cause)
        wrong_type = _WRONG_TYPE.search(cause.message)
        given = objects.at(obj, *_steps(field))
        reason = f"must be of type {wrong_type[1]}, not {_shown(given)}" if wrong_type else message
        yield Mistake(field, reason, "" if "did you mean" in reason else _nearest_word(field, message, obj, schema))
    if not causes:
        yield Mistake("", error.message)


def _located(cause: errors.Cause) -> tuple[str, str]:
    """The field and the message. A policy names the field in the message, behind its own name."""
    message = _POLICY.sub("", cause.message)
    field = cause.field.removeprefix(".").removeprefix("<nil>")
    if not field and (start := _PATH.match(message)):
        return start[1], message[start.end() :]
    return field, message


def _shown(value: object) -> str:
    return orjson.dumps(value).decode()[:_LONGEST]


def _nearest_field(schema: Object, field: str) -> str:
    place, _, name = field.rpartition(".")
    known = objects.mapping(_at(schema, place).get("properties"))
    return _closest(re.sub(r"\[\d+\]$", "", name), list(known))


def _nearest_word(field: str, message: str, obj: Object, schema: Object) -> str:
    """Of a value that is a word: what comes closest to it among the words that are listed, in answer or schema."""
    given = objects.at(obj, *_steps(field))
    if not isinstance(given, str) or not field:
        return ""
    listed = [word for found in _LISTED.findall(message) for word in re.findall(r"[\w.-]+", found)]
    valid = objects.sequence(_at(schema, field).get("enum"))
    return _closest(given, [*map(str, valid), *(word.rstrip(".") for word in listed if word != "or")])


def _closest(word: str, known: Sequence[str]) -> str:
    others = [each for each in known if each != word]
    # A shortened word is meant more often than one of the same length with other letters.
    beginning = [each for each in others if len(word) > 1 and each.lower().startswith(word.lower())]
    lower = {each.lower(): each for each in reversed(others)}
    close = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=_SIMILAR)
    return beginning[0] if beginning else lower[close[0]] if close else ""


def _at(schema: Object, field: str) -> Object:
    """The schema of a field: `spec.nodes[0].size`."""
    for step in _steps(field):
        schema = _plain(schema)
        if isinstance(step, int):
            schema = objects.mapping(schema.get("items"))
        else:
            properties = objects.mapping(schema.get("properties"))
            schema = objects.mapping(properties.get(step) or schema.get("additionalProperties"))
    return _plain(schema)


def _plain(schema: Object) -> Object:
    """OpenAPI wraps a reference that has a default or a description."""
    parts = objects.sequence(schema.get("allOf"))
    return {**schema, **objects.mapping(parts[0])} if len(parts) == 1 else schema


def _steps(field: str) -> list[str | int]:
    return [int(each) if each.isdecimal() else each for each in re.findall(r"[^.\[\]]+", field)]


async def _schema(client: Client, resource: Resource) -> Object:
    """As the server publishes it; empty where it does not, and then fewer words are suggested."""
    root = f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"
    with contextlib.suppress(errors.ApiError):
        document = objects.mapping(await client.request("GET", f"/openapi/v3/{root}"))
        for schema in objects.mapping(objects.at(document, "components", "schemas")).values():
            kinds = objects.sequence(objects.mapping(schema).get("x-kubernetes-group-version-kind"))
            if any(
                objects.mapping(each).get("kind") == resource.kind
                and objects.mapping(each).get("group") == resource.group
                for each in kinds
            ):
                return objects.mapping(schema)
    return {}
