"""What a change does to what is running: the vocabulary in which kinds of claims tell it, and everybody shows it.

    memoryGi 32 -> 64    ->    Effect(ROLLING, "pool md-0", count=3, surge=1, reason="memoryGi 32 -> 64")

Plans, the consent to another platform file and the correction of drift all go by these; none knows a kind by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Final, TypeAlias

from steelyard.frozen import frozen
from steelyard.kube.objects import Object

Parts: TypeAlias = Mapping[str, Object]
"""The objects of a claim by resource name: those that are there, as far as they are composed, or those to be."""
Required: TypeAlias = Mapping[str, Sequence[Object]]
"""What the composition requires, under its names; a name that is not there was not looked up."""

_SHOWN: Final = 8


class Disruption(IntEnum):
    """How bad it is; what compares as greater is worse."""

    NONE = 0
    ROLLING = 1
    """Machines are replaced one by one; what runs on them moves."""
    RECREATE = 2
    """Something goes and is made anew; it cannot be used meanwhile."""
    DATA_LOSS = 3

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", " ")


@frozen
class Effect:
    disruption: Disruption
    subject: str
    """What it happens to, as people call it: `pool md-0`, `database dev_shop`."""
    reason: str
    part: str = ""
    """Resource name of the part that brings it about."""
    count: int = 0
    """Machines that are replaced, or removed where nothing is replaced."""
    surge: int = 0
    """How many more machines there are meanwhile."""
    machines: tuple[str, ...] = ()
    """Their names, where they are known."""

    def __str__(self) -> str:
        """`database dev_shop: data loss: it is dropped, with everything in it`"""
        is_grave = self.disruption in (Disruption.RECREATE, Disruption.DATA_LOSS)
        return f"{self.subject}: {self.disruption.word}: {self.reason}" if is_grave else self.told

    @property
    def told(self) -> str:
        """Without the class: `pool md-0: replaces 2 machines (shop-md-0-1, shop-md-0-2), surge 1: memoryGi 32 -> 64`"""
        if self.disruption is Disruption.ROLLING and self.count:
            surge = f", surge {self.surge}" if self.surge else ""
            return f"{self.subject}: replaces {counted(self.count)}{self._named()}{surge}: {self.reason}"
        return f"{self.subject}: {self.reason}{self._named()}"

    def _named(self) -> str:
        if not self.machines:
            return ""
        more = f" and {len(self.machines) - _SHOWN} more" if len(self.machines) > _SHOWN else ""
        return f" ({', '.join(self.machines[:_SHOWN])}{more})"

    def to_json(self) -> Object:
        return {
            "disruption": self.disruption.word,
            "subject": self.subject,
            "reason": self.reason,
            **({"part": self.part} if self.part else {}),
            **({"count": self.count} if self.count else {}),
            **({"surge": self.surge} if self.surge else {}),
            **({"machines": list(self.machines)} if self.machines else {}),
        }


Effects: TypeAlias = Callable[[Parts, Parts, Required], Sequence[Effect]]
"""From what there is to what is to be."""


def no_effects(_before: Parts, _after: Parts, _required: Required) -> Sequence[Effect]:
    return ()


def worst(effects: Sequence[Effect]) -> Disruption:
    return max((each.disruption for each in effects), default=Disruption.NONE)


def counted(machines: int) -> str:
    return f"{machines} machine{'' if machines == 1 else 's'}"
