"""Claims in files, read and checked for verbs that need no server: everything that is wrong is told at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from steelyard.cli import documents, offered, output
from steelyard.cli.documents import Document
from steelyard.cli.exits import CommandError
from steelyard.compose.claimkind import ClaimKind
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform


@frozen
class Claim:
    kind: ClaimKind
    obj: Object
    """With its namespace."""
    origin: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        return str(self.obj.get("kind")), objects.namespace(self.obj), objects.name(self.obj)

    def __str__(self) -> str:
        return f"{self.obj.get('kind')} {objects.qualified_name(self.obj)}"


def read(sources: Sequence[str], platform: Platform, namespace: str) -> list[Claim]:
    """Raises CommandError. Manifests that are no claims are left out, and named."""
    found = sorted_out(documents.read(sources), namespace, output.note)
    check(found, platform)
    if not found:
        raise CommandError(f"there is no claim in {', '.join(sources)}")
    return found


def sorted_out(read: Sequence[Document], namespace: str, tell: Callable[[str], None]) -> list[Claim]:
    """Those that are claims. Raises CommandError where a claim is there twice."""
    found: dict[tuple[str, str, str], Claim] = {}
    complaints: list[str] = []
    for document in read:
        kind = offered.current().kind_of(document.obj)
        if kind is None:
            tell(f"{document.origin}: {document} is no claim, and is left out")
            continue
        place = objects.namespace(document.obj) or namespace
        obj = {**document.obj, "metadata": {**objects.metadata(document.obj), "namespace": place}}
        claim = Claim(kind, obj, document.origin)
        if claim.identity in found:
            complaints.append(f"{document.origin}: {claim} is in {found[claim.identity].origin} as well")
        found[claim.identity] = claim
    if complaints:
        raise CommandError("\n".join(complaints))
    return list(found.values())


def check(claims: Sequence[Claim], platform: Platform) -> None:
    """Raises CommandError with everything that an API would refuse."""
    from steelyard.compose import checking  # here, as most commands need not evaluate rules

    checks = {
        kind.noun: checking.of(kind, platform, offered.current())
        for kind in {each.kind.noun: each.kind for each in claims}.values()
    }
    complaints = [
        f"{each.origin}: {each}: {problem}" for each in claims for problem in checks[each.kind.noun](each.obj)
    ]
    if complaints:
        raise CommandError("\n".join(complaints))
