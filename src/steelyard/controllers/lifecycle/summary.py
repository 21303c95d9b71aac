"""Conditions made from conditions: a summary of one object's, an aggregate over many objects, a mirror of another's.

The rules and the layout of the messages are those of upstream, whose `clusterctl describe` reads them: issues before
unknowns before the rest, one bullet per condition or per distinct message, at most three messages in an aggregate.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.verdicts import Status, Verdict

_ISSUE, _UNKNOWN, _INFO = 0, 1, 2
_MESSAGES_SHOWN = 3
_NAMES_SHOWN = 3
_BULLET = re.compile(r"\s*\*\s+")
_OTHERS = {_ISSUE: "with other issues", _UNKNOWN: "with status unknown", _INFO: "with additional info"}


@frozen
class Reasons:
    """The reason of the result when something is wrong, when something is unknown, and when all is well."""

    bad: str
    unknown: str
    good: str


READY = Reasons("NotReady", "ReadyUnknown", "Ready")
UP_TO_DATE = Reasons("NotUpToDate", "UpToDateUnknown", "UpToDate")
AVAILABLE = Reasons("NotAvailable", "AvailableUnknown", "Available")


def summarize(
    target: str,
    parts: Mapping[str, Verdict],
    order: Sequence[str],
    reasons: Reasons,
    *,
    negative: Collection[str] = (),
    optional: Collection[str] = (),
    harmless: Collection[str] = (),
) -> Verdict:
    """One object's conditions of the types in `order`, merged into one.

    True is bad for `negative` types. A type without condition counts as unknown unless `optional`. Types in
    `harmless` are never held against the object (what has been deleted on the way to its own deletion).
    """
    ranked: list[tuple[int, Verdict]] = []
    for type_ in order:
        part = parts.get(type_)
        if part is None:
            if type_ in optional:
                continue
            part = verdicts.unknown(type_, "NotYetReported", f"Condition {type_} not yet reported")
        priority = _INFO if type_ in harmless else _priority(part.status, negative=type_ in negative)
        ranked.append((priority, part))
    status, reason = _result((priority for priority, _ in ranked), reasons)
    lines: list[str] = []
    for priority, part in ranked:
        if priority == _INFO and (status != "True" or not part.message):
            continue
        lines.append(f"* {part.type}:{_indented(part.message) if part.message else f' {part.reason}'}")
    return Verdict(target, status, reason, "\n".join(lines))


def aggregate(
    target: str,
    owners: Iterable[Object],
    source: str,
    reasons: Reasons,
    *,
    negative: bool = False,
    target_is_negative: bool = False,
) -> Verdict:
    """The same condition of many objects, merged; one that does not report it counts as unknown."""
    ranked: list[tuple[int, str, str, str]] = []
    for owner in owners:
        found = verdicts.find(owner, source)
        if found is None:
            found = verdicts.unknown(source, "NotYetReported", f"Condition {source} not yet reported")
        priority = _priority(found.status, negative=negative)
        ranked.append((priority, str(owner.get("kind") or ""), objects.name(owner), found.message))
    status, reason = _result((entry[0] for entry in ranked), reasons)
    if target_is_negative and status != "Unknown":
        status = "False" if status == "True" else "True"
    worst = [entry for entry in ranked if entry[0] != _INFO] or [entry for entry in ranked if entry[3]]
    return Verdict(target, status, reason, "\n".join(_messages(worst)))


def mirror(target: str, owner: Object, source: str, fallback: Verdict) -> Verdict:
    """Another object's condition under a new type; the fallback where the object does not report it."""
    found = verdicts.find(owner, source)
    if found is None:
        return Verdict(target, fallback.status, fallback.reason, fallback.message)
    reason = found.reason or ("Ready" if found.is_true else "NoReasonReported")
    return Verdict(target, found.status, reason, found.message, found.since)


def _priority(status: Status, *, negative: bool) -> int:
    if status == "Unknown":
        return _UNKNOWN
    return _ISSUE if (status == "True") == negative else _INFO


def _result(priorities: Iterable[int], reasons: Reasons) -> tuple[Status, str]:
    worst = min(priorities, default=_INFO)
    if worst == _ISSUE:
        return "False", reasons.bad
    return ("Unknown", reasons.unknown) if worst == _UNKNOWN else ("True", reasons.good)


def _messages(entries: Sequence[tuple[int, str, str, str]]) -> list[str]:
    grouped: dict[tuple[str, str], list[str]] = {}
    priorities: dict[tuple[str, str], int] = {}
    for priority, kind, name, message in entries:
        group = (kind, message)
        grouped.setdefault(group, []).append(name)
        priorities[group] = min(priority, priorities.get(group, _INFO))
    in_order = sorted(grouped, key=lambda g: (g[0], priorities[g], -len(grouped[g]), ",".join(sorted(grouped[g]))))
    lines: list[str] = []
    others: dict[tuple[str, int], int] = {}
    for group in in_order:
        kind, message = group
        names = sorted(grouped[group])
        if len(lines) == _MESSAGES_SHOWN:
            others[kind, priorities[group]] = others.get((kind, priorities[group]), 0) + len(names)
            continue
        shown = ", ".join(names[:_NAMES_SHOWN])
        more = f", ... ({len(names) - _NAMES_SHOWN} more)" if len(names) > _NAMES_SHOWN else ""
        lines.append(f"* {kind if len(names) == 1 else f'{kind}s'} {shown}{more}:{_indented(message)}")
    for (kind, priority), count in sorted(others.items()):
        lines.append(f"And {count} {kind if count == 1 else f'{kind}s'} {_OTHERS[priority]}")
    return lines


def _indented(message: str) -> str:
    if "\n" not in message and not _BULLET.match(message):
        return f" {message}"
    lines = message.split("\n")
    has_plain_lines = any(not _BULLET.match(line) for line in lines)
    out: list[str] = []
    for line in lines:
        prefix = "  "
        if has_plain_lines:
            prefix += "  " if _BULLET.match(line) else "* "
        out.append(prefix + line)
    return "\n" + "\n".join(out)
