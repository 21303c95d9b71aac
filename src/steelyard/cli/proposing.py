"""What `apply` is about to do, shown before it does, and who has to agree.

On a terminal every change is asked for. Elsewhere, as in scripts, what disrupts nothing goes through, and what would
replace machines, recreate something or lose data is done only if it was said beforehand, with `--yes`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from steelyard.cli import asking, live, offered, output, planned
from steelyard.cli.claimfiles import Claim
from steelyard.cli.comparing import Known
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.session import Session
from steelyard.frozen import frozen
from steelyard.kube.objects import Object
from steelyard.plan import planning
from steelyard.plan.planning import Plan

NOTHING_DONE = "nothing was applied"


@frozen
class Coming:
    """One object beside what it will be."""

    before: Object | None
    after: Object


async def plans(here: Session, coming: Sequence[Coming], now: Known) -> list[Plan]:
    """Claims with everything that is made for them; of anything else, the object itself."""
    claims: list[tuple[Claim, Object | None]] = []
    others: list[Plan] = []
    for each in coming:
        kind = offered.current().kind_of(each.after)
        if kind is None:
            others.append(planning.of_object(each.before, each.after))
        else:
            claims.append((Claim(kind, each.after), each.before))
    return [*others, *await live.plans(here.client, claims, now)]


def check(found: Sequence[Plan], *, yes: bool) -> None:
    """Shows the plan and asks where there is somebody to ask. Raises CommandError where it is not to be done."""
    if not any(plan.has_changes for plan in found):
        output.note(planned.NO_CHANGES)
        return
    output.note(planned.text(found, stream=sys.stderr))
    if yes:
        return
    if sys.stdin.isatty():
        asking.agree("Apply this?", otherwise=NOTHING_DONE)
    elif any(plan.disruption for plan in found):
        raise CommandError(
            f"{NOTHING_DONE}: the plan above disrupts what runs, and there is no terminal to ask on. To do it without "
            "being asked, add --yes",
            code=Exit.USAGE,
        )
