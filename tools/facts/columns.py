"""What upstream's tables of built-in kinds look like: the columns of each kind as `kubectl get` is given them.

They are declared in the printers of k8s.io/kubernetes; a column is explained in words of its own or in those of the API
field it shows. `columns.json` has each explanation once:

    {"texts": ["Name must be unique ..."], "columns": {"/configmaps": [["Name", "string", "name", 0, 0], ...]}}

A column is its name, type, format, priority and the place of its explanation.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Any, Final, TypeAlias

import modules

Json: TypeAlias = dict[str, Any]

_PRINTERS: Final = "pkg/printers/internalversion/printers.go"
_DEFINITIONS: Final = re.compile(
    r"^\t(\w+) := \[\]metav1\.TableColumnDefinition\{\n(.*?)^\t\}", re.MULTILINE | re.DOTALL
)
_ADDED: Final = re.compile(
    r"^\t(\w+) = append\(\w+, \[\]metav1\.TableColumnDefinition\{\n(.*?)^\t\}", re.MULTILINE | re.DOTALL
)
_COLUMN: Final = re.compile(r"^\t\t\{(.*)\},?$", re.MULTILINE)
_PART: Final = re.compile(r'(\w+): ("(?:[^"\\]|\\.)*"|\d+|\w+\.\w+\{\}(?:\.\w+)?\.SwaggerDoc\(\)\["\w+"\])')
_EXPLAINED: Final = re.compile(r'(\w+)\.(\w+\{\}(?:\.\w+)?)\.SwaggerDoc\(\)\["(\w+)"\]')
_HANDLER: Final = re.compile(r"TableHandler\((\w+), (\w+)\)")
_PRINTED: Final = re.compile(r"^func (\w+)\(\w+ \*(\w+)\.(\w+),", re.MULTILINE)
_IMPORT: Final = re.compile(r'^\t(?:(\w+) )?"(k8s\.io/[^"]+)"', re.MULTILINE)
_DOCUMENTED: Final = re.compile(r"^var map_(\w+) = map\[string\]string\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_TEXT: Final = re.compile(r'^\t("(?:[^"\\]|\\.)*"):\s*("(?:[^"\\]|\\.)*"),$', re.MULTILINE)
_NAME: Final = ("Name", "string", "name", 0, 'metav1.ObjectMeta{}.SwaggerDoc()["name"]')
_TYPES: Final = {"Event{}.InvolvedObject": "ObjectReference"}
_PACKAGES: Final = {"": "api", "node.k8s.io": "nodeapi"}
"""The names of Go packages that are not the first word of the API group."""
_CREATED: Final = 'metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]'
_PLAIN: Final = [_NAME, ("Created At", "date", "", 0, _CREATED)]
_ELSEWHERE: Final = {
    ("storage.k8s.io", "CSIStorageCapacity"): _PLAIN,
    ("apiregistration.k8s.io", "APIService"): [
        _NAME,
        ("Service", "string", "", 0, '"The reference to the service that hosts this API endpoint."'),
        ("Available", "string", "", 0, '"Whether this service is available."'),
        ("Age", "string", "", 0, _CREATED),
    ],
}
"""Not printed by what the printers declare."""


@cache
def _source() -> str:
    return (modules.folder("k8s.io/kubernetes") / _PRINTERS).read_text()


def _kind_of(printer: str) -> tuple[str, str]:
    """Go's package and the kind that a printer is given."""
    for name, package, kind in _PRINTED.findall(_source()):
        if name == printer:
            return package, kind
    raise SystemExit(f"{_PRINTERS} has no {printer}")


@cache
def _documentation(path: str) -> dict[str, dict[str, str]]:
    """Explanations by type and field, from the package at an import path."""
    module, _, rest = path.removeprefix("k8s.io/").partition("/")
    folder = modules.folder(f"k8s.io/{module}") / rest
    text = (folder / "types_swagger_doc_generated.go").read_text()
    return {
        kind: {ast.literal_eval(key): ast.literal_eval(value) for key, value in _TEXT.findall(body)}
        for kind, body in _DOCUMENTED.findall(text)
    }


def _explanation(expression: str) -> str:
    found = _EXPLAINED.fullmatch(expression)
    if found is None:
        return ast.literal_eval(expression)
    imports = {alias or path.rpartition("/")[2]: path for alias, path in _IMPORT.findall(_source())}
    kind = _TYPES.get(found[2]) or found[2].removesuffix("{}")
    return _documentation(imports[found[1]]).get(kind, {}).get(found[3], "")


def _columns(body: str) -> list[tuple[str, str, str, int, str]]:
    found: list[tuple[str, str, str, int, str]] = []
    for row in _COLUMN.findall(body):
        parts = dict(_PART.findall(row))
        told = {key: ast.literal_eval(parts[key]) for key in ("Name", "Type", "Format") if key in parts}
        priority = int(parts.get("Priority", "0"))
        found.append((told["Name"], told["Type"], told.get("Format", ""), priority, parts.get("Description", '""')))
    return found


def table(kinds: list[Json]) -> Json:
    """`kinds` as in kinds.json; one that cannot be listed is left out."""
    definitions = {name: _columns(body) for name, body in _DEFINITIONS.findall(_source())}
    for name, body in _ADDED.findall(_source()):
        definitions[name] += _columns(body)
    by_kind: dict[tuple[str, str], list[tuple[str, str, str, int, str]]] = {}
    for definition, printer in _HANDLER.findall(_source()):
        package, kind = _kind_of(printer)
        if not kind.endswith("List") and definition in definitions:
            by_kind[package, kind] = definitions[definition]
    texts: list[str] = []
    columns: Json = {}
    for entry in kinds:
        group, kind = entry["group"], entry["kind"]
        if "list" not in entry["verbs"] or f"{group}/{entry['plural']}" in columns:
            continue
        package: str = _PACKAGES.get(group) or group.partition(".")[0]
        printed = by_kind.get((package, kind)) or by_kind.get(("api", kind))
        found = _ELSEWHERE.get((group, kind)) or printed or _PLAIN
        rows: list[list[Any]] = []
        for name, type_, format_, priority, expression in found:
            text = _explanation(expression)
            if text not in texts:
                texts.append(text)
            rows.append([name, type_, format_, priority, texts.index(text)])
        columns[f"{group}/{entry['plural']}"] = rows
    return {"texts": texts, "columns": columns}
