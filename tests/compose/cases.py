"""Reading the golden cases: a claim, what was observed, and what is to come of it on which platform.

With `UPDATE_GOLDEN=1` in the environment the tests write `desired.yaml` instead of comparing it; read the difference
before committing it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import yaml

from steelyard import settings
from steelyard.compose import identity, offering
from steelyard.compose.composed import Composed, Observed
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform

GOLDEN = Path(__file__).parent.parent / "golden"
FOLDER = GOLDEN / "workloadcluster"
"""Claims of the first revision: what becomes of them never changes."""
NEWER = sorted(path.name for path in GOLDEN.iterdir() if path != FOLDER)
CASES = [
    *sorted(path.name for path in FOLDER.iterdir()),
    *sorted(f"{folder}/{path.name}" for folder in NEWER for path in (GOLDEN / folder).glob("*")),
]


def folder(case: str) -> Path:
    return (GOLDEN if "/" in case else FOLDER) / case


def load(case: str, name: str) -> Object:
    return cast(Object, yaml.load((folder(case) / name).read_bytes(), yaml.CSafeLoader) or {})


def is_refused(case: str) -> bool:
    """As its golden file says."""
    return "\nrefusal:" in (folder(case) / "desired.yaml").read_text(encoding="utf-8")


def platform(case: str) -> Platform:
    """The one that the case comes with, else one with nothing but a domain."""
    file = folder(case) / "platform.yaml"
    text = file.read_text(encoding="utf-8") if file.is_file() else "domain: pnats.cloud"
    return settings.parse(text)


def observed(case: str) -> Observed:
    content = load(case, "observed.yaml")
    return Observed(
        resources=objects.mapping(content.get("resources")),
        required=objects.mapping(content.get("required")),
        now=str(content.get("now") or ""),
    )


def compose(claim: Object, found: Observed, platform: Platform) -> Composed:
    """As the claims controller does it."""
    kind = offering.STANDARD.kind_of(claim)
    assert kind is not None
    return identity.of_claim(claim, kind.compose(claim, found, platform))


def as_document(composed: Composed) -> Object:
    """Everything that composing gave, as the golden files hold it."""
    document: Object = {
        "conditions": [
            {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
            for each in composed.conditions
        ],
        "status": composed.status,
        "rolling": composed.rolling,
        "ready": [name for name, part in composed.desired.items() if part.ready],
        "desired": {name: part.object for name, part in composed.desired.items()},
    }
    if composed.refusal is not None:
        document["refusal"] = {"reason": composed.refusal.reason, "message": composed.refusal.message}
    return document


def write(case: str, document: Object) -> None:
    (folder(case) / "desired.yaml").write_text(
        yaml.dump(document, Dumper=_NoAliases, sort_keys=False, width=120), encoding="utf-8"
    )


class _NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True
