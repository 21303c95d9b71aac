"""What may differ between two servers that behave alike, in one place. Everything else is compared as it is.

- Times: an RFC 3339 time, alone or within a document that is quoted as text, becomes `<time>`; the Age cells of a Table
  become `<age>`. The entries of managedFields, which are in the order of their times, are put in that of their
  managers.
- Uids: a UUID, anywhere in a string, becomes `<uid 1>`, numbered by first appearance, so that identity still counts.
- Revisions: the resourceVersion of an object becomes `<rv 1>`, numbered likewise; that of a list or bookmark, which
  counts writes of others too, becomes `<revision>`. So do the numbers of revisions within messages, and `continue`.
- Generated suffixes: a name made from `generateName` becomes the prefix and `<suffix 1>`; so does the name of an event
  that a controller wrote, which ends in the time.
- Tokens of service accounts, which hold times and uids, are shown as what they say; `exp` and `nbf` count from `iat`.

What the sequence itself sent is never touched: it must come back as it was sent.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Final, cast

from tests.conformance.replay import Exchange

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_UUID: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_AGE: Final = re.compile(r"(\d+[smhd])+")
_PREFIX: Final = re.compile(r'"generateName": "([^"]+)"')
_SUFFIX: Final = "[bcdfghjklmnpqrstvwxz2456789]{5}"
_MOMENT: Final = re.compile(r"\.[0-9a-f]{16}\b")
_TOKEN: Final = re.compile(r"(eyJ[\w-]+)\.(eyJ[\w-]+)\.[\w-]+")
_AGES: Final = frozenset(("Age", "Last Seen", "First Seen", "LastSchedule"))
_REVISION_IN_TEXT: Final = re.compile(
    r"((?:[Rr]esource ?[Vv]ersion|RV)(?!: Invalid value)[^0-9]{0,25}?|, current: )(\d{1,19})\b( \(\d+\))?"
)
"""`resourceVersion: "12"`, `"resourceVersion":"12"`, `too old resource version: 1 (12)`; not the 0 that is refused."""


class Normaliser:
    """One per transcript: it remembers what it has numbered."""

    def __init__(self, sent: str) -> None:
        """`sent` is the text of the sequence; values that occur in it are the sequence's own."""
        self._sent = sent
        self._uids: dict[str, str] = {}
        self._revisions: dict[str, str] = {}
        self._names: dict[str, str] = {}
        # A name that was refused is in no object: it is found by the prefix that was sent.
        prefixes = {prefix[:58] for prefix in _PREFIX.findall(sent)}
        self._refused = [re.compile(rf"(?<![-\w])({re.escape(prefix)}){_SUFFIX}(?![-\w])") for prefix in prefixes]
        self._ages: list[int] = []
        """The columns that hold ages in the last Table that named its columns: those of a watch name them once."""

    def exchange(self, exchange: Exchange) -> dict[str, Any]:
        body = _with_echoes(exchange.body)
        self._find_names(body)
        self._find_names(exchange.events)
        result: dict[str, Any] = {"step": exchange.step, "code": exchange.code, "type": exchange.content_type}
        if exchange.warnings:
            result["warnings"] = [self._text(each) for each in exchange.warnings]
        if exchange.headers:
            result["headers"] = {name: self._text(value) for name, value in exchange.headers.items()}
        if body is not None:
            result["body"] = self._value(body)
        if exchange.events:
            result["events"] = [self._value(each) for each in exchange.events]
        return result

    def _find_names(self, value: Any) -> None:
        if isinstance(value, list):
            for each in cast("list[Any]", value):
                self._find_names(each)
        elif isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            prefix, name = fields.get("generateName"), fields.get("name")
            if isinstance(prefix, str) and isinstance(name, str) and prefix and name.startswith(prefix[:58]):
                self._names.setdefault(name, f"{prefix}<suffix {len(self._names) + 1}>")
            for each in fields.values():
                self._find_names(each)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            token = _TOKEN.fullmatch(value)
            return self._token(*token.groups()) if token else self._text(value)
        if isinstance(value, list):
            return [self._value(each) for each in cast("list[Any]", value)]
        if isinstance(value, dict):
            return self._mapping(cast("dict[str, Any]", value))
        return value

    def _mapping(self, fields: dict[str, Any]) -> dict[str, Any]:
        if fields.get("kind") == "Table":
            fields = self._without_ages(fields)
        counts_others = "items" in fields or "rows" in fields or _is_bookmark(fields)
        result: dict[str, Any] = {}
        for key, value in fields.items():
            if key == "metadata" and isinstance(value, dict):
                result[key] = self._metadata(cast("dict[str, Any]", value), counts_others=counts_others)
            else:
                # Keys hold uids where managedFields name owner references.
                result[self._text(key)] = self._value(value)
        return result

    def _metadata(self, metadata: dict[str, Any], *, counts_others: bool) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in metadata.items():
            if key == "resourceVersion" and isinstance(value, str) and value:
                result[key] = "<revision>" if counts_others else self._revision(value)
            elif key == "continue" and value:
                result[key] = "<continue>"
            elif key == "managedFields" and isinstance(value, list):
                result[key] = self._value(sorted(cast("list[dict[str, Any]]", value), key=_manager))
            else:
                result[key] = self._value(value)
        return result

    def _revision(self, value: str) -> str:
        return self._revisions.setdefault(value, f"<rv {len(self._revisions) + 1}>")

    def _text(self, text: str) -> str:
        if text in self._sent:
            return text
        text = _TIME.sub(lambda found: found[0] if found[0] in self._sent else "<time>", text)
        for name, generated in self._names.items():
            text = text.replace(name, generated)
        for pattern in self._refused:
            text = pattern.sub(r"\1<suffix>", text)
        text = _MOMENT.sub(".<suffix>", text)
        text = _UUID.sub(lambda found: self._uid(found[0]), text)
        return _REVISION_IN_TEXT.sub(
            lambda found: found[0] if self._was_sent(found[2]) else f"{found[1]}<revision>", text
        )

    def _was_sent(self, number: str) -> bool:
        """As a number of its own, not as a part of another or of a uid."""
        return re.search(rf"(?<![\w-]){number}(?![\w-])", self._sent) is not None

    def _token(self, head: str, body: str) -> Any:
        claims = _part(body)
        issued = claims.pop("iat")
        for key in ("exp", "nbf"):
            claims[key] -= issued
        return {"head": _part(head), "claims": self._value(claims)}

    def _without_ages(self, table: dict[str, Any]) -> dict[str, Any]:
        columns = cast("list[dict[str, Any]]", table.get("columnDefinitions") or [])
        if columns:
            self._ages = [place for place, column in enumerate(columns) if column.get("name") in _AGES]
        rows: list[dict[str, Any]] = []
        for row in cast("list[dict[str, Any]]", table.get("rows") or []):
            cells = list(cast("list[Any]", row.get("cells") or []))
            for place in self._ages:
                if place < len(cells) and _AGE.fullmatch(str(cells[place])):
                    cells[place] = "<age>"
            rows.append({**row, "cells": cells})
        return {**table, "rows": rows} if rows else table

    def _uid(self, uid: str) -> str:
        return uid if uid in self._sent else self._uids.setdefault(uid, f"<uid {len(self._uids) + 1}>")


def _manager(entry: dict[str, Any]) -> list[str]:
    return [str(entry.get(key) or "") for key in ("operation", "manager", "apiVersion", "subresource")]


def _with_echoes(value: Any) -> Any:
    """What a webhook was told of comes back as a text, and is compared as the object that it is."""
    if isinstance(value, str) and value.startswith('{"echo":'):
        return json.loads(value)
    if isinstance(value, list):
        return [_with_echoes(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _with_echoes(each) for key, each in cast("dict[str, Any]", value).items()}
    return value


def _part(text: str) -> dict[str, Any]:
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def _is_bookmark(fields: dict[str, Any]) -> bool:
    metadata = fields.get("metadata")
    return isinstance(metadata, dict) and not cast("dict[str, Any]", metadata).get("uid")
