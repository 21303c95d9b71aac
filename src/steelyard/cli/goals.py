"""What `wait` can wait for, in the spellings of kubectl and in shorter ones.

Ready                          condition=Ready           the condition is True
condition=Ready=False                                    the condition is False
jsonpath={.status.state}=Ready                           a field has that value; without one, any
deleted                        delete                    it is gone
create                                                   it is there
"""

from __future__ import annotations

import re
from typing import Final

from steelyard.api import troubles
from steelyard.cli.exits import CommandError, Exit
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object

GONE: Final = "gone"
THERE: Final = "there"
_PATH = re.compile(r"\.?[\w-]+(\[\d+\])?(\.[\w-]+(\[\d+\])?)*")


@frozen
class Goal:
    words: str
    """How an object is that has reached it: `Ready`, `gone`."""
    condition: str = ""
    status: str = "True"
    path: tuple[str | int, ...] = ()
    value: str | None = None
    other_than: str | None = None
    """The field at the path has another value than this one."""

    @property
    def is_gone(self) -> bool:
        return self.words == GONE

    @property
    def is_there(self) -> bool:
        return self.words == THERE

    def is_reached(self, obj: Object | None) -> bool:
        if obj is None or self.is_gone:
            return obj is None and self.is_gone
        if self.is_there:
            return True
        if self.path:
            found = objects.at(obj, *self.path)
            if self.other_than is not None:
                return found is not None and _text(found) != self.other_than
            return found is not None if self.value is None else _text(found) == self.value
        condition = troubles.condition(obj, self.condition)
        # What is said of an older state of the object is no news of this one.
        is_stale = int(condition.get("observedGeneration") or objects.generation(obj)) < objects.generation(obj)
        return str(condition.get("status") or "").lower() == self.status.lower() and not is_stale

    def other_conditions(self, obj: Object) -> str:
        """What could be waited for instead, where the object has no such condition."""
        conditions = map(objects.mapping, objects.sequence(objects.at(obj, "status", "conditions")))
        types = [str(item.get("type")) for item in conditions]
        return f" (it has the conditions {', '.join(types)})" if self.condition and self.condition not in types else ""


def parse(text: str) -> Goal:
    """Raises CommandError."""
    head, _, rest = text.partition("=")
    match head.lower():
        case "delete" | "deleted" if not rest:
            return Goal(GONE)
        case "create" | "created" if not rest:
            return Goal(THERE)
        case "condition" if rest:
            name, _, status = rest.partition("=")
            status = status or "True"
            return Goal(name if status.lower() == "true" else f"{name}={status}", condition=name, status=status)
        case "jsonpath" if rest:
            return _of_path(text, rest)
        case _ if text and not rest and "=" not in text:
            return Goal(text, condition=text)
        case _:
            raise CommandError(
                f'"{text}" is nothing to wait for; write e.g. condition=Ready, condition=Ready=False, '
                "jsonpath={.status.state}=Ready, create or delete",
                code=Exit.USAGE,
            )


READY: Final = parse("Ready")
DELETED: Final = Goal(GONE)


def _of_path(text: str, rest: str) -> Goal:
    inside, closed, value = rest.replace("'", "").removeprefix("{").partition("}")
    if not closed:
        inside, _, value = inside.partition("=")
    if not _PATH.fullmatch(inside) or (closed and value and not value.startswith("=")):
        raise CommandError(
            f'"{text}" is no path that this command follows: write fields and indexes, as in '
            "jsonpath={.status.conditions[0].status}=True",
            code=Exit.USAGE,
        )
    steps = [int(each) if each.isdecimal() else each for each in re.findall(r"[\w-]+", inside)]
    wanted = value.removeprefix("=")
    return Goal(f"{inside}={wanted}" if wanted else inside, path=tuple(steps), value=wanted or None)


def _text(found: object) -> str:
    return str(found).lower() if isinstance(found, bool) else str(found)
