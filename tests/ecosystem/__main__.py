"""`make ecosystem`: other people's software against our API server, each part with what was run of it.

python -m tests.ecosystem                   what is built and run in a few minutes
python -m tests.ecosystem --full            everything
python -m tests.ecosystem kubevirt          one part
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.ecosystem import (
    cluster_api,
    clusterctl,
    clusterctl_move,
    crossplane,
    crossplane_render,
    external_secrets,
    kr8s,
    kubeadm,
    management,
    moving,
    openbao,
    providersql,
    resource_sets,
)
from tests.ecosystem.capi import commands, graph, life, takeover
from tests.ecosystem.kubevirt import story as kubevirt
from tests.ecosystem.outcome import Outcome
from tests.harness import built, end_in_order

PARTS: Final[Mapping[str, Callable[[Path, Path, str], Outcome]]] = {
    "cluster-api": cluster_api.run,
    "clusterctl": clusterctl.run,
    "clusterctl-move": clusterctl_move.run,
    "clusterctl-embedded": commands.run,
    "crossplane": crossplane.run,
    "crossplane-render": crossplane_render.run,
    "external-secrets": external_secrets.run,
    "kr8s": kr8s.run,
    "kubeadm": kubeadm.run,
    "kubevirt": kubevirt.run,
    "management": management.run,
    "moving": moving.run,
    "managers": life.run_embedded,
    "managers-graph": graph.run,
    "managers-on-kubernetes": life.run_on_kubernetes,
    "managers-takeover": takeover.run,
    "openbao": openbao.run,
    "provider-sql": providersql.run,
    "resource-sets": resource_sets.run,
}
BRIEF: Final = (
    "cluster-api", "clusterctl", "clusterctl-embedded", "kr8s", "kubeadm", "management", "managers", "moving"
)  # fmt: skip
"""The others build several large programs first, and run for minutes."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make ecosystem", description="Run other people's software against our API.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; by default {', '.join(BRIEF)}")
    parser.add_argument("--full", action="store_true", help="every part")
    arguments = parser.parse_args()
    if arguments.full:
        os.environ.setdefault(takeover.SETTLE, "600")
    parts: list[str] = list(PARTS) if arguments.full else arguments.parts or list(BRIEF)
    if set(parts) - set(PARTS):
        parser.error(f"no such part; there are {', '.join(PARTS)}")
    (kubectl,) = built("kubectl")
    outcomes: list[Outcome] = []
    for part in parts:
        started = time.monotonic()
        # Beside the built programs, outside the tree.
        cache = Path(kubectl).parents[1].with_name("ecosystem") / part
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="ecosystem-", ignore_cleanup_errors=True) as folder:
            outcome = PARTS[part](Path(folder), cache, kubectl)
        outcomes.append(outcome)
        if outcome.story:
            print(outcome.story)
        print(f"{outcome}, {time.monotonic() - started:.0f} s", flush=True)
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


if __name__ == "__main__":
    end_in_order()
    sys.exit(main())
