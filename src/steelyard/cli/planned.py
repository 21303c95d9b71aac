"""How a plan looks: for people, in 80 columns and in colour on a terminal, or as JSON for programs.

~   MachineDeployment shop-md-0   rolling
      spec.template.spec.version   v1.32.1 -> v1.33.0
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TextIO

import orjson

from steelyard.cli.exits import PlanExit
from steelyard.compose.effects import Disruption, counted
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.plan.fielddiff import FieldChange
from steelyard.plan.planning import Plan, Step, Verb

NO_CHANGES: Final = "No changes: what is there is as asked for."
_SYMBOLS: Final[dict[Verb, str]] = {
    "create": "+",
    "change": "~",
    "replace": "-/+",
    "delete": "-",
    "hold": "!",
    "refuse": "!",
}
_VERB_COLOURS: Final[dict[Verb, str]] = {
    "create": "32",
    "change": "33",
    "replace": "31",
    "delete": "31",
    "hold": "35",
    "refuse": "31",
}
_COLOURS: Final = {
    Disruption.NONE: "",
    Disruption.ROLLING: "33",
    Disruption.RECREATE: "31",
    Disruption.DATA_LOSS: "1;31",
}
_WIDTH: Final = 80
_LONGEST_PATH: Final = 40
_LONGEST_VALUE: Final = 400
_LINES_SHOWN: Final = 6
_REASONS_SHOWN: Final = 3
_NOTES_SHOWN: Final = 5


class Painter:
    """Colours where they are seen."""

    def __init__(self, stream: TextIO) -> None:
        self._is_coloured = stream.isatty() and not os.environ.get("NO_COLOR")

    def __call__(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._is_coloured and code else text


def exit_code(plans: Iterable[Plan]) -> PlanExit:
    found = list(plans)
    if any(plan.refusal or plan.is_blocked for plan in found):
        return PlanExit.FAILED
    if any(plan.disruption is not Disruption.NONE for plan in found):
        return PlanExit.DISRUPTIVE
    return PlanExit.CHANGES if any(plan.has_changes for plan in found) else PlanExit.NO_CHANGES


def as_json(plans: Sequence[Plan]) -> Object:
    return {
        "claims": [_claim_as_json(plan) for plan in plans],
        "summary": {
            "create": _count(plans, "create"),
            "change": _count(plans, "change"),
            "replace": _count(plans, "replace"),
            "delete": _count(plans, "delete"),
            "hold": _count(plans, "hold"),
            "machinesReplaced": sum(plan.machines for plan in plans),
            "disruption": max((plan.disruption for plan in plans), default=Disruption.NONE).word,
        },
    }


def _claim_as_json(plan: Plan) -> Object:
    return {
        "kind": plan.claim.get("kind"),
        "namespace": objects.namespace(plan.claim),
        "name": objects.name(plan.claim),
        "disruption": plan.disruption.word,
        **({"refusal": plan.refusal} if plan.refusal else {}),
        **({"notes": list(plan.notes)} if plan.notes else {}),
        "effects": [each.to_json() for each in plan.effects],
        "objects": [step.to_json() for step in plan.steps],
    }


def text(plans: Sequence[Plan], *, stream: TextIO | None = None, full: bool = False) -> str:
    """Every claim that changes, object by object, and the summary. With `full`, also what new objects hold."""
    paint = Painter(stream or sys.stdout)
    shown = [plan for plan in plans if plan.steps or plan.refusal or plan.notes]
    lines = [line for plan in shown for line in (*_of_claim(plan, paint, full=full), "")]
    return "\n".join((*lines, summary(plans, paint)))


def summary(plans: Sequence[Plan], paint: Painter | None = None) -> str:
    paint = paint or Painter(sys.stdout)
    refused = sum(bool(plan.refusal) for plan in plans)
    blocked = _count(plans, "refuse")
    problems = [f"{refused} cannot be composed"] if refused else []
    problems += [f"{blocked} cannot be made: somebody else's object has the name"] if blocked else []
    if not any(plan.has_changes for plan in plans):
        return "; ".join(("Plan: nothing to change", *problems)) if problems else NO_CHANGES
    counts = ", ".join(f"{_count(plans, verb)} to {verb}" for verb in ("create", "change", "replace", "delete"))
    told = [f"Plan: {counts}"]
    machines = sum(plan.machines for plan in plans)
    for disruption in (Disruption.ROLLING, Disruption.RECREATE, Disruption.DATA_LOSS):
        found = [each for plan in plans for each in plan.effects if each.disruption is disruption]
        # Machines are counted, everything else is named.
        subjects = [counted(machines)] if disruption is Disruption.ROLLING and machines else []
        subjects += [each.subject for each in found if not each.count]
        if subjects:
            more = f" and {len(subjects) - _REASONS_SHOWN} more" if len(subjects) > _REASONS_SHOWN else ""
            named = f"{disruption.word}: {', '.join(subjects[:_REASONS_SHOWN])}{more}"
            told.append(paint(named, _COLOURS[disruption]))
    return "; ".join((*told, *problems))


def radius(plans: Sequence[Plan], *, stream: TextIO | None = None) -> str:
    """One line for each claim that changes, the most disruptive first."""
    paint = Painter(stream or sys.stdout)
    lines: list[str] = []
    refused = [plan for plan in plans if plan.refusal]
    if refused:
        lines += [paint("cannot be composed any more; what was made stays as it is", "31")]
        lines += [f"  {_named(plan)}: {plan.refusal}" for plan in refused]
    changed = [plan for plan in plans if plan.has_changes and not plan.refusal]
    for disruption in sorted(Disruption, reverse=True):
        group = [plan for plan in changed if plan.disruption is disruption]
        if group:
            lines += ["", paint(_heading(disruption, group), _COLOURS[disruption])]
            width = max(len(_named(plan)) for plan in group)
            ordered = sorted(group, key=lambda plan: (-plan.machines, _named(plan)))
            lines += [f"  {_named(plan):<{width}}   {_because(plan)}" for plan in ordered]
    notes = [f"{_named(plan)}: {note}" for plan in plans for note in plan.notes]
    if notes:
        lines += ["", *notes[:_NOTES_SHOWN]]
        lines += [f"and {len(notes) - _NOTES_SHOWN} more notes"] if len(notes) > _NOTES_SHOWN else []
    same = len(plans) - len(changed) - len(refused)
    if same and (changed or refused):
        lines += ["", f"{same} of {len(plans)} claims stay as they are"]
    return "\n".join((*lines, *([""] if lines else []), summary(plans, paint))).lstrip("\n")


def _heading(disruption: Disruption, group: Sequence[Plan]) -> str:
    claims = f"{len(group)} claim{'' if len(group) == 1 else 's'}"
    machines = sum(plan.machines for plan in group)
    word = "no disruption" if disruption is Disruption.NONE else disruption.word
    return f"{word}: {claims}" + (f", {counted(machines)}" if machines else "")


def _because(plan: Plan) -> str:
    reasons = list(dict.fromkeys(each.reason for each in plan.effects if each.disruption is plan.disruption))
    if not reasons:
        reasons = [f"{_SYMBOLS[step.verb]} {step.entry.kind} {step.entry.name}" for step in plan.steps]
    more = f" and {len(reasons) - _REASONS_SHOWN} more" if len(reasons) > _REASONS_SHOWN else ""
    told = ", ".join(reasons[:_REASONS_SHOWN]) + more
    return f"{counted(plan.machines)}: {told}" if plan.machines else told


def _named(plan: Plan) -> str:
    return f"{plan.claim.get('kind')} {objects.qualified_name(plan.claim)}"


def _of_claim(plan: Plan, paint: Painter, *, full: bool) -> Iterator[str]:
    yield paint(_named(plan), "1")
    for note in plan.notes:
        yield from _wrapped(f"  note: {note}", "        ")
    if plan.refusal:
        yield from _wrapped(f"  {paint('cannot be composed', '31')}: {plan.refusal}", "    ")
        return
    home = objects.namespace(plan.claim)
    for step in plan.steps:
        yield from _of_step(step, home, paint, full=full)
    if plan.effects:
        yield ""
    for effect in plan.effects:
        word = f"{paint(effect.disruption.word, _COLOURS[effect.disruption])}: " if effect.disruption else ""
        yield from _wrapped(f"  {word}{effect.told}", "    ")


def _of_step(step: Step, home: str, paint: Painter, *, full: bool) -> Iterator[str]:
    place = f"{step.entry.namespace}/" if step.entry.namespace not in ("", home) else ""
    names = [f"{place}{step.entry.name}"]
    if step.replaced is not None and step.replaced.name != step.entry.name:
        names = [step.replaced.name, f"-> {step.entry.name}"]
    symbol = paint(f"{_SYMBOLS[step.verb]:<3}", _VERB_COLOURS[step.verb])
    word = f"   {paint(step.disruption.word, _COLOURS[step.disruption])}" if step.disruption else ""
    # Without the colours, which take no room.
    length = len(f"  -/+ {step.entry.kind} {' '.join(names)}") + (3 + len(step.disruption.word) if word else 0)
    if length <= _WIDTH:
        yield f"  {symbol} {step.entry.kind} {' '.join(names)}{word}"
    else:
        yield f"  {symbol} {step.entry.kind}{word}"
        yield from (f"      {name}" for name in names)
    if step.note:
        yield from _wrapped(f"        {step.note}", "        ")
    if step.verb != "create" or full:
        yield from _of_fields(step.fields)


def _of_fields(fields: Sequence[FieldChange]) -> Iterator[str]:
    width = min(max((len(each.path) for each in fields), default=0), _LONGEST_PATH)
    for each in fields:
        if _is_long_text(each):
            yield f"        {each.path}"
            yield from _of_lines(str(each.before or ""), str(each.after or ""))
            continue
        value = "(changed, not shown)" if each.is_secret else f"{_value(each.before)} -> {_value(each.after)}"
        line = f"        {each.path:<{width}}   {value}"
        if len(line) <= _WIDTH:
            yield line
            continue
        yield f"        {each.path}"
        if len(value) + 10 <= _WIDTH:
            yield f"          {value}"
        else:
            yield f"          {_value(each.before)}"
            yield f"          -> {_value(each.after)}"


def _is_long_text(change: FieldChange) -> bool:
    both = (change.before, change.after)
    return not change.is_secret and any(isinstance(each, str) and "\n" in each for each in both)


def _of_lines(before: str, after: str) -> Iterator[str]:
    one, other = before.splitlines(), after.splitlines()
    gone, new = ([line for line in side if line not in against] for side, against in ((one, other), (other, one)))
    changed = [*(f"- {line}" for line in gone), *(f"+ {line}" for line in new)]
    yield from (f"          {_shortened(line)}" for line in changed[:_LINES_SHOWN])
    if len(changed) > _LINES_SHOWN:
        yield f"          … {len(changed) - _LINES_SHOWN} more lines"


def _value(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, str):
        return _shortened(value) if value else '""'
    return _shortened(orjson.dumps(value).decode())


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _wrapped(line: str, indent: str) -> list[str]:
    return textwrap.wrap(
        line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    ) or [line]


def _count(plans: Iterable[Plan], verb: Verb) -> int:
    return sum(plan.count(verb) for plan in plans)
