"""How long it takes to compose, to render and to plan: what waits while somebody looks at a pull request.

Composing is timed inside a process, the other two as commands, with the start of Python and all reading and writing.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench import clusters
from bench.servers import Ours
from steelyard import settings
from steelyard.compose import identity, offering
from steelyard.compose.composed import NOTHING
from steelyard.kube.objects import Object

_COMPOSE_MS: Final = 1.0
_RENDER_SECONDS: Final = 20.0
"""For 10,000 claims."""
_PLAN_SECONDS: Final = 10.0
"""For 1,000."""
_TIMES: Final = 2000
_NO_CHANGES: Final = 0


async def measure(folder: Path, rendered: int, planned: int) -> None:
    """Prints as it goes."""
    _report("one WorkloadCluster composed", _composing() * 1e3, "ms", _COMPOSE_MS)
    claims = _written(folder / "claims", rendered)
    took = _command(["render", "-f", str(claims)], folder / "data")
    _report(f"{rendered:,} claims rendered", took, "s", _RENDER_SECONDS)
    server = Ours(folder / "plans")
    try:
        server.start()
        client = server.client()
        await clusters.bring_up(client, planned, control_plane=1, workers=0)
        await client.close()
        took = _command(["plan", "--all"], server.kubeconfig.parent)
        _report(f"plan over {planned:,} live claims", took, "s", _PLAN_SECONDS)
    finally:
        server.stop()


def _composing() -> float:
    platform, kind = settings.Platform(), offering.STANDARD.kinds[0]
    claims = [_claim(number) for number in range(_TIMES)]
    started = time.perf_counter()
    for claim in claims:
        identity.of_claim(claim, kind.compose(claim, NOTHING, platform))
    return (time.perf_counter() - started) / _TIMES


def _claim(number: int) -> Object:
    return {
        "apiVersion": clusters.CLAIMS.api_version,
        "kind": clusters.CLAIMS.kind,
        "metadata": {"name": f"bench-{number:05d}", "namespace": f"team-{number % 50}"},
        "spec": {"parameters": {"environment": "dev", "workerReplicas": 3}},
    }


def _written(folder: Path, count: int) -> Path:
    """A claim in each file, as a repository has them."""
    folder.mkdir()
    for number in range(count):
        claim = _claim(number)
        metadata, parameters = claim["metadata"], claim["spec"]["parameters"]
        (folder / f"{metadata['name']}.yaml").write_text(
            f"apiVersion: {claim['apiVersion']}\nkind: {claim['kind']}\n"
            f"metadata: {{name: {metadata['name']}, namespace: {metadata['namespace']}}}\n"
            f"spec: {{parameters: {{environment: dev, workerReplicas: {parameters['workerReplicas']}}}}}\n"
        )
    return folder


def _command(arguments: Sequence[str], data_dir: Path) -> float:
    command = [sys.executable, "-m", "steelyard", *arguments, "--data-dir", str(data_dir)]
    started = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    took = time.perf_counter() - started
    if done.returncode != _NO_CHANGES:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr[-2000:]}")
    return took


def _report(what: str, value: float, unit: str, budget: float) -> None:
    verdict = "met" if value <= budget else "not met"
    print(f"{what:<52} {value:10.2f} {unit}   budget {budget:g} {unit}, {verdict}", flush=True)
