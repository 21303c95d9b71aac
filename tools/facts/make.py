"""Makes the tables of facts about upstream kinds again: `python tools/facts/make.py`.

The same pinned modules give the same bytes; a table that upstream no longer has is removed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import builtin
import clusterapi
import columns
import externalsecrets
import policy
import providersql

SOURCE = Path(__file__).resolve().parents[2] / "src" / "steelyard"


def lines(value: Any, depth: int = 2) -> str:
    """JSON with a line per type or kind, so that an upgrade's differences can be read, and no more lines than that."""
    if depth and isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        if any(isinstance(inner, dict | list) for inner in table.values()):
            items = [f"{json.dumps(key)}:{lines(inner, depth - 1)}" for key, inner in table.items()]
            return "{\n" + ",\n".join(items) + "\n}"
    if depth and isinstance(value, list):
        rows = cast("list[Any]", value)
        if any(isinstance(inner, dict) for inner in rows):
            return "[\n" + ",\n".join(lines(inner, 0) for inner in rows) + "\n]"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def write(folder: Path, tables: dict[str, dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.json"):
        if stale.name not in tables:
            stale.unlink()
    total = 0
    for name, table in sorted(tables.items()):
        text = lines(table) + "\n"
        total += len(text.encode())
        (folder / name).write_text(text)
    print(f"{folder.relative_to(SOURCE.parents[1])}: {len(tables)} tables, {total / 1024:.0f} KiB")


def main() -> None:
    write(SOURCE / "api" / "clusterapi", clusterapi.tables())
    write(SOURCE / "api" / "externalsecrets", externalsecrets.tables())
    write(SOURCE / "api" / "providersql", providersql.tables())
    tables = builtin.tables()
    shown = columns.table(tables["kinds.json"]["kinds"])
    write(SOURCE / "kube" / "builtin", {**tables, "columns.json": shown, "policy.json": policy.table()})


if __name__ == "__main__":
    main()
