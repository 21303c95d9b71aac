"""What would move, and everything that stands against it: all of it is told at once, before anything is written."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.moving import belongings as selecting
from steelyard.moving import checking, obstacles, reading, rewriting
from steelyard.moving import record as records
from steelyard.moving.belongings import Belongings, Thing
from steelyard.moving.record import Record


class CannotMove(Exception):
    """What keeps it from that, and what to do. Running the same command again goes on, where it has begun."""

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__("\n".join([message, *(f"  {each}" for each in problems)]))
        self.problems = list(problems)


@frozen
class Prepared:
    record: Record
    belongings: Belongings
    left: tuple[tuple[Thing, tuple[str, ...]], ...] = ()
    """Claims that stay, with why."""

    @property
    def acting(self) -> list[Thing]:
        """Claims that reach into other namespaces: with their authors' rights here, with the mover's there."""
        return [each for each in self.belongings.claims if rewriting.acts_for_somebody(each.object)]


async def prepare(
    source: Client, target: Client, server: str, namespaces: Sequence[str] | None, *, leaves_behind: bool
) -> Prepared:
    """A move that could begin now. Raises CannotMove."""
    identity = await records.identity(target)
    if identity == await records.identity(source):
        raise CannotMove(f"source and target are the same API, {server}: name another one with --to-kubeconfig")
    entries = await reading.served(source)
    found = await reading.everything(source, entries)
    chosen = selecting.select(found, namespaces)
    left = obstacles.immovable(chosen)
    if left and not leaves_behind:
        raise CannotMove(
            "some of it cannot move; --leave-behind leaves these claims where they are, and moves the rest:",
            [f"{thing}: {reason}" for thing, reasons in left for reason in reasons],
        )
    stuck = [reason for thing, reasons in left if not thing.is_claim for reason in reasons]
    if stuck:
        raise CannotMove("some of it cannot move, and belongs to no claim that could be left behind:", stuck)
    stays = tuple(
        (thing.resource.kind, objects.namespace(thing.object), objects.name(thing.object)) for thing, _ in left
    )
    chosen = selecting.select(found, namespaces, stays)
    if not chosen.moving:
        raise CannotMove("there is nothing to move: no claims, and nothing of Cluster API, in what was named")
    by_uid: dict[str, Thing] = {objects.uid(each.object): each for each in found}
    problems = [*obstacles.unsettled(chosen), *obstacles.orphaned(chosen, by_uid)]
    roots = selecting.tops(chosen.moving)
    if len(roots) > records.MOST_ROOTS:
        problems.append(f"it is too much for one move ({len(roots)} claims and clusters): name fewer namespaces")
    scope = None if namespaces is None else tuple(namespaces)
    record = Record(str(uuid.uuid4()), "pausing", identity, server, scope, roots, stays)
    problems += await checking.problems(source, target, chosen, record.id)
    if problems:
        raise CannotMove("nothing was changed, since this stands against it:", problems)
    return Prepared(record, chosen, tuple((thing, tuple(reasons)) for thing, reasons in left))


async def begun(source: Client, target: Client, namespaces: Sequence[str] | None, *, is_named: bool) -> Record | None:
    """The move that is under way out of this API, if there is one and it goes where it is to go. `is_named` says
    whether somebody said which namespaces. Raises CannotMove."""
    try:
        record = await records.read(source)
    except records.Unreadable as error:
        raise CannotMove(f"{error}. Finish it with the version that began it") from error
    if record is None:
        return None
    if record.target != await records.identity(target):
        raise CannotMove(
            f"a move of {record.scope} to {record.server} has begun, and is {record.phase}: finish it with that "
            "target, or cancel it there with --cancel, before anything goes elsewhere"
        )
    wanted = None if namespaces is None else tuple(namespaces)
    if is_named and wanted != record.namespaces:
        raise CannotMove(
            f"a move of {record.scope} to this target has begun, and is {record.phase}: finish that first, by naming "
            "the same namespaces or none"
        )
    return record


async def begin(source: Client, prepared: Prepared) -> Record:
    """From here on there is a move, whatever becomes of the caller."""
    try:
        return await records.create(source, prepared.record)
    except errors.AlreadyExists:
        raise CannotMove("another move out of this API has begun in the meantime: finish that first") from None
