"""The comparison sees: twenty defects are planted in our server, and each is caught by a sequence of the corpus.

The undamaged server stands in for upstream, so that this needs nothing built; what differs is only the defect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.server.bodies.documents import Document
from steelyard.kube.server.call import Call, Payload, Reply
from steelyard.kube.server.transport.application import Backend, WatchItem, WatchStream
from tests.conformance import compare, corpus, ours, replay

Body = dict[str, Any]


@dataclass(frozen=True)
class Defect:
    """What is done to calls before the server sees them, to its answers, to its errors and to its events."""

    sequence: str
    call: Callable[[Call], Call] = lambda call: call
    body: Callable[[Call, Body], Body] = lambda _, body: body
    error: Callable[[errors.ApiError], errors.ApiError] = lambda error: error
    event: Callable[[Body], Body | None] = lambda event: event
    reply: Callable[[Reply], Reply] = lambda reply: reply


class Damaged:
    def __init__(self, backend: Backend, defect: Defect) -> None:
        self._backend = backend
        self._defect = defect

    async def call(self, call: Call) -> Reply:
        try:
            reply = await self._backend.call(self._defect.call(call))
        except errors.ApiError as error:
            raise self._defect.error(error) from None
        body: Body = orjson.loads(reply.text())
        return self._defect.reply(Reply(reply.code, self._defect.body(call, body), warnings=reply.warnings))

    async def watch(self, call: Call) -> WatchStream:
        return Stream(await self._backend.watch(self._defect.call(call)), self._defect)

    def authorize(self, call: Call) -> None:
        self._backend.authorize(call)

    def check(self, call: Call) -> None:
        self._backend.check(call)

    def size(self, call: Call) -> int:
        return self._backend.size(call)

    def document(self, path: str, accept: str) -> Document | None:
        return self._backend.document(path, accept)

    def paths(self) -> list[str]:
        return self._backend.paths()


class Stream:
    def __init__(self, stream: WatchStream, defect: Defect) -> None:
        self._stream = stream
        self._defect = defect

    async def batch(self) -> Sequence[WatchItem]:
        while items := await self._stream.batch():
            events = [self._defect.event(orjson.loads(b"".join(item.pieces()))) for item in items]
            kept = [Event(event) for event in events if event is not None]
            if kept:
                return kept
        return []

    def close(self) -> None:
        self._stream.close()


@dataclass(frozen=True)
class Event:
    value: Body

    def pieces(self) -> Sequence[bytes]:
        return (orjson.dumps(self.value), b"\n")


def meta(body: Body) -> Body:
    return cast(Body, body.get("metadata") or {})


def edited(edit: Callable[[Body], object]) -> Callable[[Call, Body], Body]:
    """Applies the edit to single objects."""

    def apply(_: Call, body: Body) -> Body:
        if "items" not in body and body.get("kind") != "Status":
            edit(body)
        return body

    return apply


def lose_a_manager(body: Body) -> None:
    fields = meta(body).get("managedFields")
    if isinstance(fields, list) and len(cast("list[Any]", fields)) > 1:
        cast("list[Any]", fields).pop()


def sent(call: Call) -> Object:
    return objects.mapping(orjson.loads(call.payload.data)) if call.payload is not None else {}


def with_body(call: Call, body: Object) -> Call:
    return replace(call, payload=Payload(call.payload.content_type if call.payload else "", orjson.dumps(body)))


def without_revision(call: Call) -> Call:
    """The server no longer sees what a patch is conditional on."""
    body = sent(call)
    if "metadata" in body:
        kept = {key: value for key, value in meta(body).items() if key != "resourceVersion"}
        return with_body(call, {**body, "metadata": kept})
    return call


def option(name: str, value: str) -> Callable[[Call], Call]:
    return lambda call: replace(call, options={**call.options, name: value}) if name in call.options else call


def without_option(name: str) -> Callable[[Call], Call]:
    return lambda call: replace(call, options={key: call.options[key] for key in call.options if key != name})


def reworded(**changes: Any) -> Callable[[errors.ApiError], errors.ApiError]:
    def change(error: errors.ApiError) -> errors.ApiError:
        for name, value in changes.items():
            setattr(error, name, value)
        return error

    return change


def other_class(error: errors.ApiError) -> errors.ApiError:
    if isinstance(error, errors.NotFound):
        return errors.BadRequest(error.message, kind=error.kind, group=error.group, name=error.name)
    return error


def reordered(_: Call, body: Body) -> Body:
    if "items" in body:
        cast("list[Any]", body["items"]).reverse()
    return body


DEFECTS = {
    "a wrong reason": Defect("objects that cannot be had", error=other_class),
    "a reworded message": Defect("a namespace is created with its finalizer", error=reworded(message="no")),
    "causes are lost": Defect("numbers and their limits", error=reworded(causes=())),
    "details without the name": Defect("finalizers that are wrong", error=reworded(name="")),
    "a lost managedFields entry": Defect("managers that agree share a field", body=edited(lose_a_manager)),
    "a missing conflict of managers": Defect(
        "two managers conflict, then one forces",
        call=lambda call: replace(call, options={**call.options, "force": "true"}) if call.verb == "patch" else call,
    ),
    "a missing conflict of revisions": Defect(
        "a merge patch with a stale resourceVersion conflicts", call=without_revision
    ),
    "the wrong subresource in managedFields": Defect(
        "apply on status is a manager of its own",
        body=edited(lambda body: [each.pop("subresource", None) for each in meta(body).get("managedFields", [])]),
    ),
    "a dry run that writes": Defect("dry run of every verb", call=without_option("dryRun")),
    "warnings are swallowed": Defect(
        "warn tells of unknown and duplicate fields", reply=lambda reply: replace(reply, warnings=())
    ),
    "strict is lenient": Defect(
        "strict refuses unknown and duplicate fields", call=option("fieldValidation", "Ignore")
    ),
    "a skipped bookmark": Defect(
        "a watch list ends its initial events with a bookmark",
        event=lambda event: None if event["type"] == "BOOKMARK" else event,
    ),
    "a bookmark without its annotation": Defect(
        "a watch list of nothing is one bookmark",
        event=lambda event: {**event, "object": {**event["object"], "metadata": {"resourceVersion": "1"}}},
    ),
    "deletions are told as changes": Defect(
        "a watch tells of creation, change and deletion",
        event=lambda event: {**event, "type": "MODIFIED"} if event["type"] == "DELETED" else event,
    ),
    "a watch ignores its selector": Defect(
        "a watch with a label selector sees objects come and go", call=option("labelSelector", "")
    ),
    "a list in the wrong order": Defect("a list in key order", body=reordered),
    "a page forgets how many remain": Defect(
        "a list in pages",
        body=lambda _, body: {**body, "metadata": {**meta(body), "remainingItemCount": 0}} if "items" in body else body,
    ),
    "generation does not count": Defect(
        "status is apart, and generation counts spec", body=edited(lambda body: meta(body).update(generation=1))
    ),
    "the revision changes without a write": Defect(
        "a merge patch of nothing writes nothing",
        body=lambda call, body: (
            {**body, "metadata": {**meta(body), "resourceVersion": "9" + str(meta(body)["resourceVersion"])}}
            if call.verb == "patch"
            else body
        ),
    ),
    "defaults are not filled in": Defect(
        "defaults are filled in on every way", body=edited(lambda body: body.pop("spec", None))
    ),
    "creation answers the wrong code": Defect(
        "a list in key order", reply=lambda reply: replace(reply, code=200) if reply.code == 201 else reply
    ),
    "orphans are collected": Defect(
        "orphans stay, without the reference",
        call=lambda call: (
            with_body(call, {**sent(call), "propagationPolicy": "Background"}) if call.verb == "delete" else call
        ),
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
async def test_a_planted_defect_is_caught(name: str, tmp_path: Path) -> None:
    defect = DEFECTS[name]
    sequence = next(each for each in corpus.load() if each.name == defect.sequence)
    (tmp_path / "sound").mkdir()
    (tmp_path / "damaged").mkdir()
    async with (
        ours.serving(tmp_path / "sound") as sound,
        ours.serving(tmp_path / "damaged", lambda api: Damaged(api, defect)) as damaged,
        ours.serving(tmp_path, lambda api: Damaged(api, Defect(""))) as same,
        replay.session() as http,
    ):
        for server in (sound, same):
            await replay.prepare(http, server)
        expected = await replay.play(http, sound, sequence)
        assert compare.compare(sequence, expected, await replay.play(http, same, sequence)).passed
        assert not compare.compare(sequence, expected, await _damaged(http, damaged, sequence)).passed


async def _damaged(http: Any, server: replay.Server, sequence: corpus.Sequence) -> list[replay.Exchange]:
    """A sequence that cannot be played to its end on the damaged server shows the defect too: it ends there."""
    try:
        await replay.prepare(http, server)
        return await replay.play(http, server, sequence)
    except replay.DidNotHappen:
        return []
