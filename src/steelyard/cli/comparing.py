"""With what `plan` compares claims: a platform, a directory of manifests or claims, or a revision of a repository.

Only the first needs a server. Each gives one plan for each claim that comes, stays or goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from steelyard import settings
from steelyard.cli import claimfiles, documents, gitrevision, offered, output, session
from steelyard.cli.claimfiles import Claim
from steelyard.cli.documents import STANDARD_INPUT, Document
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.platform import settings_of
from steelyard.cli.reach import Given, Server
from steelyard.compose.refusing import REVISION
from steelyard.frozen import frozen
from steelyard.installation.datadir import DataDir
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.plan import offline, planning
from steelyard.plan.planning import Plan
from steelyard.settings import Platform, SettingsError

Named: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name of a claim."""


@frozen
class Known:
    """The settings with which claims are composed."""

    platform: Platform
    path: Path | None = None
    is_certain: bool = True
    """Whether they are those of the platform that is asked; without, only what the claim says can be compared."""


@frozen
class Before:
    """What there was of a claim."""

    parts: Mapping[str, Object]
    claim: Claim | None = None
    """None where only its manifests are there."""


def known(server: Server, given: Given, platform_file: Path | None) -> Known:
    """The file that is named goes first, then what the platform here was started with, then the file at hand."""
    if platform_file is None and server.data_dir is not None:
        running = settings.recall(server.data_dir.remembered, infrastructures=offered.infrastructure_names())
        if running is not None and running.platform is not None:
            return Known(running.platform, running.path)
    chosen = settings_of(session.locate(given.data_dir), platform_file)
    return Known(chosen.platform, chosen.path, is_certain=chosen.path is not None)


def of_directory(directory: Path, platform: Platform, namespace: str) -> dict[Named, Before]:
    if not directory.is_dir():
        raise CommandError(
            f"--against {directory}: there is no such directory; write live, a directory, or git:REVISION",
            code=Exit.USAGE,
        )
    return _of_documents(documents.below(directory), platform, namespace)


def of_revision(
    revision: str, sources: Sequence[str], now: Known, data_dir: DataDir, namespace: str
) -> dict[Named, Before]:
    """With the platform file as it was then, where it is in the repository as well."""
    if STANDARD_INPUT in sources:
        raise CommandError("--against git:REV needs files with -f: standard input has no history", code=Exit.USAGE)
    found: list[Document] = []
    platform = now.platform
    for source in map(Path, sources):
        then = gitrevision.open_at(revision, source)
        found += documents.parse(then.files(source, documents.SUFFIXES))
        name = then.inside(now.path) if now.path is not None and now.path != data_dir.remembered else None
        if name is not None and then.has(name):
            platform = _parsed(then.read(name), f"{revision}:{name}")
    return _of_documents(found, platform, namespace)


def _parsed(text: bytes, name: str) -> Platform:
    try:
        known = offered.infrastructure_names()
        return settings.parse(text.decode(), name, infrastructures=known)
    except (SettingsError, UnicodeDecodeError) as error:
        raise CommandError(str(error)) from None


def of_claims(claims: Sequence[Claim], platform: Platform) -> dict[Named, Before]:
    found: dict[Named, Before] = {}
    for claim in claims:
        rendered = offline.render(claim.kind, claim.obj, platform)
        if rendered.composed.refusal is not None:
            output.note(f"{claim} could not be composed before: {rendered.composed.refusal.message}")
        found[claim.identity] = Before(rendered.parts, claim)
    return found


def _of_documents(read: Sequence[Document], platform: Platform, namespace: str) -> dict[Named, Before]:
    manifests = offline.by_claim([each.obj for each in read])
    claims = claimfiles.sorted_out(read, namespace, lambda _: None)
    return {**{name: Before(parts) for name, parts in manifests.items()}, **of_claims(claims, platform)}


def plans(
    claims: Sequence[Claim], before: Mapping[Named, Before], platform: Platform, *, with_deleted: bool
) -> list[Plan]:
    """With `with_deleted`, also of claims that are no longer there."""
    made: list[Plan] = []
    for claim in claims:
        rendered = offline.render(claim.kind, claim.obj, platform)
        there = before.get(claim.identity)
        composed = rendered.composed
        if composed.refusal is not None:
            made.append(Plan(claim.obj, refusal=composed.refusal.message))
        elif there is None:
            made.append(planning.between(claim.kind, claim.obj, {}, composed, None))
        else:
            old = there.claim.obj if there.claim is not None else claim.obj
            made.append(planning.between(claim.kind, claim.obj, there.parts, composed, old))
    gone = [name for name in before if name not in {each.identity for each in claims}] if with_deleted else []
    return [*made, *(_deleted(name, before[name], platform) for name in gone)]


def _deleted(name: Named, before: Before, platform: Platform) -> Plan:
    claim = before.claim or _claim_of(name, platform)
    return planning.of_deletion(claim.kind, claim.obj, before.parts)


def _claim_of(name: Named, platform: Platform) -> Claim:
    """A claim that only its manifests tell of."""
    kind_name, namespace, own = name
    for kind in offered.current().kinds:
        resource = kind.resource(platform.domain)
        if resource.kind == kind_name:
            metadata = {"name": own, "namespace": namespace}
            return Claim(kind, {"apiVersion": resource.api_version, "kind": kind_name, "metadata": metadata})
    raise CommandError(f"there are manifests of {kind_name} {namespace}/{own}, a kind that is not offered here")


def with_revision(claims: Sequence[Claim], revision: str) -> list[Claim]:
    return [Claim(each.kind, asking(each.obj, revision), each.origin) for each in claims] if revision else list(claims)


def asking(claim: Object, revision: str) -> Object:
    """The claim with the wish for a composition revision."""
    annotations = {**objects.annotations(claim), REVISION: revision}
    return {**claim, "metadata": {**objects.metadata(claim), "annotations": annotations}}
