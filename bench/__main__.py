"""`make bench`: what the platform costs and how fast it is, measured from outside on a process of its own.

Figures of the upstream programs are those recorded in bench/upstream.json, measured once on a machine of 2 cores; the
ratios say how far apart we are, not how fast this machine is today.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import clusters
from steelyard.kube.client.interface import Client
from steelyard.kube.resources import CONFIG_MAPS
from tests.harness import ROOT, PlatformProcess

UPSTREAM: dict[str, float] = json.loads((ROOT / "bench" / "upstream.json").read_text())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--idle-seconds", type=float, default=600.0)
    parser.add_argument("--only", choices=("start", "create", "clusters", "idle"))
    given = parser.parse_args()
    parts = [given.only] if given.only else ["start", "create", "clusters", "idle"]
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as name:
        root = Path(name)
        if "start" in parts:
            start(root)
        if "create" in parts:
            create(root)
        if "clusters" in parts or "idle" in parts:
            count = given.clusters if "clusters" in parts else 3
            asyncio.run(many_clusters(root, count, given.idle_seconds if "idle" in parts else 0.0))


def start(root: Path) -> None:
    times: list[float] = []
    resident = 0
    for number in range(5):
        with PlatformProcess(root / f"start-{number}") as platform:
            began = time.perf_counter()
            platform.start()
            times.append(time.perf_counter() - began)
            resident = _resident(platform)
            platform.terminate()
    report("start to ready", statistics.median(times), "s", UPSTREAM["start_seconds"])
    report("resident after start", resident / 1e6, "MB", UPSTREAM["resident_mb"])


def create(root: Path) -> None:
    with PlatformProcess(root / "create") as platform:
        platform.start()
        for connections, requests in ((1, 2000), (16, 8000), (64, 8000)):
            figures = _load(platform, "create", connections, requests)
            if connections == 1:
                report("create latency, 1 connection, median", figures["median_ms"], "ms", UPSTREAM["create_1_ms"])
            label = f"creates, {connections} connections, durable, TLS"
            report(label, figures["per_second"], "/s", UPSTREAM[f"create_{connections}_per_second"])
        figures = _load(platform, "get", 32, 20000)
        report("gets, 32 connections, TLS", figures["per_second"], "/s", UPSTREAM["get_32_per_second"])
        report("resident after 18,000 objects", _resident(platform) / 1e6, "MB")
        platform.terminate()


async def many_clusters(root: Path, count: int, idle_seconds: float) -> None:
    with PlatformProcess(root / "clusters") as platform:
        platform.start()
        client = platform.client()
        before = _cpu_seconds(platform)
        took = await clusters.bring_up(client, count, control_plane=1, workers=3)
        report(f"{count} clusters of 1 + 3 to Ready", took, "s", UPSTREAM["clusters_100_seconds"] * count / 100)
        report("  CPU", _cpu_seconds(platform) - before, "s", UPSTREAM["clusters_100_cpu_seconds"] * count / 100)
        report("  resident", _resident(platform) / 1e6, "MB", UPSTREAM["clusters_100_resident_mb"] * count / 100)
        revision = await _revision(client)
        report("  writes", revision, "")
        if idle_seconds:
            await asyncio.sleep(5)
            first = await _revision(client)
            used = _cpu_seconds(platform)
            await asyncio.sleep(idle_seconds)
            written = await _revision(client) - first
            report(f"writes in {idle_seconds:g} idle seconds with {count} clusters", written, "")
            report("  CPU used meanwhile", (_cpu_seconds(platform) - used) / idle_seconds * 100, "% of a core")
        await client.close()
        platform.terminate()


def report(what: str, value: float, unit: str, upstream: float | None = None) -> None:
    ratio = f"   upstream {upstream:g} {unit}, ours/upstream {value / upstream:.2f}" if upstream else ""
    print(f"{what:<52} {value:10.2f} {unit}{ratio}", flush=True)


def _load(platform: PlatformProcess, verb: str, connections: int, requests: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.load", str(platform.data_dir.kubeconfig), "--verb", verb]
    command += ["--connections", str(connections), "--requests", str(requests)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


async def _revision(client: Client) -> int:
    return int((await client.list(CONFIG_MAPS, limit=1)).resource_version)


def _resident(platform: PlatformProcess) -> int:
    assert platform.process is not None
    fields = Path(f"/proc/{platform.process.pid}/statm").read_text().split()
    return int(fields[1]) * 4096


def _cpu_seconds(platform: PlatformProcess) -> float:
    assert platform.process is not None
    fields = Path(f"/proc/{platform.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


main()
