"""What the documents promise a reader: every file, function, link and command they name is there."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from steelyard import settings
from steelyard.cli.main import app
from steelyard.compose import offering
from steelyard.kube.objects import Object
from steelyard.kube.schema import parse, prune, validate
from steelyard.settings import Platform
from tests.harness import ROOT
from tools import cli_reference

SOURCE = ROOT / "src" / "steelyard"
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
EXAMPLES = [ROOT / "examples" / "shop.yaml", *sorted((ROOT / "examples" / "environments").glob("*.yaml"))]
DATA_EXAMPLES = sorted((ROOT / "examples" / "data").glob("*.yaml"))

_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"[\w.*-]+(/[\w.*-]+)*\.(py|md|ya?ml|toml|txt|json|sh)")
_FOLDER = re.compile(r"([\w.-]+/)+")

by_name = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def text_of(document: Path) -> str:
    return document.read_text(encoding="utf-8")


def code_spans(document: Path) -> list[str]:
    """What stands between backticks, line breaks within taken for spaces; fenced blocks are left out."""
    return [" ".join(span.split()) for span in _CODE.findall(_FENCE.sub("", text_of(document)))]


@cache
def source_text() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))


def is_there(path: str, document: Path) -> bool:
    """As seen from the repository, from the package, from the document; a name without folders may be anywhere."""
    if any(next(iter(base.glob(path)), None) for base in (ROOT, SOURCE, document.parent)):
        return True
    places = (SOURCE, ROOT / "tests", ROOT / "docs", ROOT / "examples", ROOT / "tools")
    return "/" not in path and any(next(base.rglob(path), None) for base in places)


@by_name
def test_every_file_and_folder_in_backticks_exists(document: Path) -> None:
    named = [span.split(":")[0].removeprefix("./") for span in code_spans(document)]
    missing = [
        path
        for path in named
        if (_FILE.fullmatch(path) or _FOLDER.fullmatch(path)) and not is_there(path.rstrip("/"), document)
    ]
    assert missing == []


@by_name
def test_every_function_and_class_in_backticks_exists(document: Path) -> None:
    """Written `Owner.function()`, `function()`, or `file.py: Class` and `file.py: function()`."""
    missing: list[str] = []
    for span in code_spans(document):
        file, _, rest = span.partition(": ") if _FILE.fullmatch(span.split(":")[0]) else ("", "", span)
        if not rest or (not file and not re.fullmatch(r"[\w.]+\(\)", rest)):
            continue
        where = next((path for base in (SOURCE, ROOT) if (path := base / file).is_file()), None)
        text = where.read_text(encoding="utf-8") if where is not None else source_text()
        for part in rest.removesuffix("()").split("."):
            is_module = any(SOURCE.rglob(f"{part}.py"))
            if not is_module and not re.search(rf"(def|class) {re.escape(part)}\b", text):
                missing.append(span)
    assert missing == []


@by_name
def test_every_link_leads_somewhere(document: Path) -> None:
    without_patterns = _CODE.sub(lambda span: "" if "[" in span[1] else span[0], text_of(document))
    links = [link for link in _LINK.findall(without_patterns) if "://" not in link]
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_trace_passes_every_layer() -> None:
    trace = text_of(ROOT / "docs" / "architecture.md")
    layers = ["kube/server/", "kube/store/", "kube/runtime/", "controllers/claims/", "controllers/lifecycle/",
              "compose/", "providers/simulated/", "api/", "cli/", "settings/", "app.py", "datadir.py"]  # fmt: skip
    assert [layer for layer in layers if layer not in trace] == []


def test_the_trace_quotes_every_layer_contract() -> None:
    trace = text_of(ROOT / "docs" / "architecture.md")
    contracts = re.findall(r'^name = "([A-Z][^"]+)"$', text_of(ROOT / "pyproject.toml"), re.MULTILINE)
    assert contracts
    for contract in contracts:
        assert f"- {contract}" in trace


def test_no_feature_is_claimed_without_a_test() -> None:
    rows = [line.strip("| ").split(" | ") for line in text_of(ROOT / "docs" / "features.md").splitlines()]
    features = [row for row in rows if re.fullmatch(r"[A-Z]\d+", row[0])]
    assert len({row[0] for row in features}) == len(features) >= 50
    for feature in features:
        assert feature[3] in ("done", "partly", "not yet"), feature[0]
        shown_by = re.findall(r"`(tests/[^`]+)`", feature[-1])
        assert bool(shown_by) == (feature[3] != "not yet"), feature[0]


def test_the_reference_of_the_command_line_is_what_the_commands_say() -> None:
    assert text_of(ROOT / cli_reference.PAGE) == cli_reference.page(app), "run `make reference`"


def test_every_command_is_documented() -> None:
    reference = text_of(ROOT / cli_reference.PAGE)
    names = [command.name for command in cli_reference.commands(app)]
    assert [name for name in names if f"## `steelyard {name}`" not in reference] == []
    told = "\n".join(text_of(document) for document in DOCUMENTS if document != ROOT / cli_reference.PAGE)
    assert [name for name in names if name not in told] == []


@by_name
def test_every_make_command_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    shell = "\n".join(body for language, body in _FENCE.findall(text_of(document)) if language == "sh")
    used = set(re.findall(r"^make ([a-z0-9]+)", shell, re.MULTILINE))
    used |= {span.split()[1] for span in code_spans(document) if re.fullmatch(r"make [a-z0-9]+( .*)?", span)}
    assert used <= targets


@by_name
def test_every_steelyard_command_line_is_accepted(document: Path) -> None:
    known = {command.name: command for command in cli_reference.commands(app)}
    shell = "\n".join(body for language, body in _FENCE.findall(text_of(document)) if language == "sh")
    for line in re.findall(r"^steelyard .*$", shell, re.MULTILINE):
        words = shlex.split(line.split(" > ")[0], comments=True)[1:]
        command = next(filter(None, (known.get(" ".join(words[:count])) for count in (3, 2, 1))), None)
        assert command is not None, line
        options = {name for option in command.options for name in option.names}
        assert {word.partition("=")[0] for word in words if word.startswith("-")} <= options, line


# Examples.


def claims_of(path: Path) -> list[Object]:
    return [cast(Object, document) for document in yaml.load_all(text_of(path), yaml.CSafeLoader)]


def schema_of(claim: Object) -> Any:
    domain = settings.Platform().domain
    for definition in offering.STANDARD.definitions(domain):
        spec = definition["spec"]
        if (spec["names"]["kind"], f"{spec['group']}/v1alpha1") == (claim["kind"], claim["apiVersion"]):
            return parse.from_openapi(spec["versions"][0]["schema"]["openAPIV3Schema"])
    raise AssertionError(f"{claim['kind']} of {claim['apiVersion']} is no kind of this platform")


@pytest.mark.parametrize("path", [*EXAMPLES, *DATA_EXAMPLES], ids=lambda path: str(path.relative_to(ROOT)))
def test_the_example_is_accepted_as_it_stands(path: Path) -> None:
    for claim in claims_of(path):
        schema = schema_of(claim)
        assert prune.prune(schema, claim) == []
        assert validate.validate(schema, claim) == []


def test_there_is_an_example_for_every_environment() -> None:
    found = {
        path.stem: claim["spec"]["parameters"]["environment"] for path in EXAMPLES[1:] for claim in claims_of(path)
    }
    assert found == {name: name for name in Platform().environments}


def test_the_claim_on_the_first_screen_is_the_example() -> None:
    blocks = [body for language, body in _FENCE.findall(text_of(ROOT / "README.md")) if language == "yaml"]
    assert yaml.load(blocks[0], yaml.CSafeLoader) == claims_of(ROOT / "examples" / "shop.yaml")[0]
