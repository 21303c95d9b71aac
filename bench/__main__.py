"""`make bench`: how fast our API server is beside kube-apiserver with etcd, in the same run on the same machine.

python -m bench                     all: three rounds of each server in turn, clusters, idle, plans, clones, databases,
                                    the function for Crossplane, machines of a KVM host
python -m bench --quick             the API servers only, one round each, fewer requests
python -m bench --ours              without upstream, which then need not be built
python -m bench --only clusters     one part
python -m bench --record            writes the table into docs/benchmarks.md
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench import clones, clusters, databases, figures, functions, machines, plans, requests, rounds
from bench.figures import Round
from bench.servers import Ours, Server, Upstream
from tests.harness import ROOT, end_in_order

PAGE: Final = ROOT / "docs" / "benchmarks.md"
_PARTS: Final = ("api", "clusters", "plans", "clones", "databases", "function", "machines")
_BEGIN, _END = "<!-- measured -->\n", "<!-- end of what was measured -->\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure the platform beside upstream's servers.")
    parser.add_argument("--quick", action="store_true", help="one round of each API server, fewer requests")
    parser.add_argument("--ours", action="store_true", help="leave upstream out")
    parser.add_argument("--rounds", type=int, default=0, help="lives of each server: 3, or 1 with --quick")
    parser.add_argument("--only", choices=_PARTS, help="one part")
    parser.add_argument(
        "--clusters", type=int, nargs="+", default=[20, 100, 1000], help="how many at once, each on a platform anew"
    )
    parser.add_argument(
        "--by-managers", type=int, default=20, metavar="N", help="clusters that Cluster API's managers bring up too"
    )
    parser.add_argument("--rendered", type=int, default=10_000, help="claims that are rendered")
    parser.add_argument("--planned", type=int, default=1_000, help="live claims that are planned over")
    parser.add_argument(
        "--megabytes", type=int, default=0, help="of the database that is copied: 1000, or 100 with --quick"
    )
    parser.add_argument("--databases", type=int, default=200, help="that are idle")
    parser.add_argument("--machines", type=int, default=50, help="of a KVM host that are made at once")
    parser.add_argument("--idle-seconds", type=float, default=120.0)
    parser.add_argument("--record", action="store_true", help="write the table into docs/benchmarks.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as name:
        folder = Path(name)
        if given.only in (None, "api"):
            count = given.rounds or (1 if given.quick else 3)
            sizes = rounds.QUICK if given.quick else rounds.FULL
            table = api_servers(folder, sizes, count, with_upstream=not given.ours)
            lives = f"medians of {count} lives each" if count > 1 else "one life each"
            found = f"{figures.machine()}; {lives}.\n\n{table}\n"
            print(f"\n{found}", flush=True)
            if given.record:
                record(found)
        if given.only == "clusters" or (given.only is None and not given.quick):
            asyncio.run(
                clusters.measure(folder, given.clusters, given.idle_seconds, 0 if given.ours else given.by_managers)
            )
        if given.only == "plans" or (given.only is None and not given.quick):
            asyncio.run(plans.measure(folder, given.rendered, given.planned))
        if given.only == "clones" or (given.only is None and not given.quick):
            clones.measure(given.megabytes or (100 if given.quick else 1000))
        if given.only == "databases" or (given.only is None and not given.quick):
            asyncio.run(databases.measure(folder, 5 if given.quick else 20, given.databases, given.idle_seconds))
        if given.only == "function" or (given.only is None and not given.quick):
            asyncio.run(functions.measure(folder, 300 if given.quick else 1500))
        if given.only == "machines" or (given.only is None and not given.quick):
            asyncio.run(machines.measure(folder / "machines", 3 if given.quick else 10, given.machines))


def api_servers(folder: Path, sizes: rounds.Sizes, count: int, *, with_upstream: bool) -> str:
    """The table. The servers take turns, so that a machine that changes its pace meanwhile does it to both."""
    measured: dict[str, list[Round]] = {"ours": [], "upstream": []}
    makers: dict[str, Callable[[Path], Server]] = {"ours": Ours}
    if with_upstream:
        makers["upstream"] = Upstream
    for number in range(1, count + 1):
        for name, make in makers.items():
            server = make(folder / f"{name}-{number}")
            measured[name].append(rounds.run(server, sizes, lambda line, who=f"{name} {number}": _tell(who, line)))
    if not requests.CONTROL_PLANE_CRD.exists():
        print(f"skipped: applies of KubeadmControlPlanes, for want of {requests.CONTROL_PLANE_CRD.name}")
    return figures.table(figures.rows(measured["ours"], measured["upstream"]))


def record(found: str) -> None:
    before, begin, rest = PAGE.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise SystemExit(f"{PAGE} has lost the marks between which the table goes")
    PAGE.write_text(f"{before}{begin}\n{found}\n{end}{after}")


def _tell(who: str, line: str) -> None:
    print(f"{who}: {line}", flush=True)


if __name__ == "__main__":
    end_in_order()
    main()
