"""Makes docs/reference/cli.md, the page of the command line, from the commands themselves: `make reference`.

    tools/cli_reference.py            writes the page
    tools/cli_reference.py --check    writes nothing; fails where the page is not what the commands say

Each command's docstring is its section: what it does, and one example as the last line.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

import typer

from steelyard.cli.exits import MEANINGS
from steelyard.cli.main import app as steelyard_app

ROOT = Path(__file__).parent.parent
PAGE = "docs/reference/cli.md"
_GENERATED = "<!-- Made by tools/cli_reference.py from the commands: change those, then `make reference`. -->"
_EXAMPLE = "Example: "
_WORDS: dict[Any, str] = {str: "TEXT", int: "NUMBER"}


@dataclass(frozen=True, slots=True)
class Option:
    names: Sequence[str]
    """As typed: `--namespace`, `-n`."""
    value: str
    """What follows the name; empty for a switch."""
    help: str
    default: str
    required: bool


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    """All its words: `create cluster`."""
    paragraphs: Sequence[str]
    example: str
    arguments: Sequence[tuple[str, str]]
    """Each as written in the usage line, and its meaning."""
    options: Sequence[Option]


def commands(app: typer.Typer) -> list[Command]:
    """Every command of the program, those of groups included, in the order of the help."""
    return list(_commands(typer.main.get_command(app), ""))


def page(app: typer.Typer) -> str:
    found = commands(app)
    parts = [
        _GENERATED,
        "# The command line",
        "Results go to stdout, everything else to stderr. Which platform a command talks to is said by the first of "
        "these that is there: `--kubeconfig`; `--data-dir`; `--context`, of the files in `KUBECONFIG` or of "
        "`~/.kube/config`; `STEELYARD_DATA_DIR`; the user's data directory, if a platform has run there; the current "
        "context of the files in `KUBECONFIG`, or of `~/.kube/config`. [operations.md](../operations.md) says why.",
        _table(("Command", "What it does"), [(_link(command), command.paragraphs[0]) for command in found]),
        "## Exit codes",
        _table(("Code", "Meaning"), [(str(int(code)), meaning) for code, meaning in MEANINGS.items()]),
    ]
    for command in found:
        parts += _section(command)
    return "\n\n".join(parts) + "\n"


def _commands(node: Any, path: str) -> Iterator[Command]:
    for name, child in cast("dict[str, Any]", node.commands).items():
        words = f"{path} {name}".strip()
        if hasattr(child, "commands"):
            if child.invoke_without_command:
                yield _command(words, child)
            yield from _commands(child, words)
        else:
            yield _command(words, child)


def _command(name: str, node: Any) -> Command:
    paragraphs = [" ".join(paragraph.split()) for paragraph in str(node.help or "").split("\n\n")]
    is_with_example = paragraphs[-1].startswith(_EXAMPLE)
    return Command(
        name=name,
        paragraphs=paragraphs[:-1] if is_with_example else paragraphs,
        example=paragraphs[-1].removeprefix(_EXAMPLE) if is_with_example else "",
        arguments=[_argument(item) for item in node.params if item.param_type_name == "argument"],
        options=[_option(item) for item in node.params if item.param_type_name == "option" and item.name != "help"],
    )


def _argument(item: Any) -> tuple[str, str]:
    word = str(item.metavar or item.name.upper())
    return word if item.required or word.startswith("[") else f"[{word}]", str(item.help or "")


def _option(item: Any) -> Option:
    names = [*item.opts, *item.secondary_opts]
    return Option(
        names=sorted(names, key=lambda name: not name.startswith("--")),
        value="" if item.is_flag else _value(item),
        help=str(item.help or ""),
        default=_default(item),
        required=bool(item.required),
    )


def _value(item: Any) -> str:
    if item.metavar:
        return str(item.metavar)
    annotation: Any = item.type_descriptor.annotation
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return ", ".join(str(member.value) for member in annotation)
    if get_origin(annotation) is Literal:
        return ", ".join(map(str, get_args(annotation)))
    return _WORDS[annotation]


def _default(item: Any) -> str:
    is_said = item.show_default and item.default not in (None, "", False)
    if not is_said:
        return ""
    if item.is_flag:
        return str(item.opts[0])
    return str(item.default.value if isinstance(item.default, enum.Enum) else item.default)


def _section(command: Command) -> Iterator[str]:
    yield f"## `steelyard {command.name}`"
    yield from command.paragraphs
    usage = " ".join(("steelyard", command.name, *(word for word, _ in command.arguments), "[OPTIONS]"))
    yield f"```sh\n{usage}\n{command.example}\n```" if command.example else f"```sh\n{usage}\n```"
    if command.arguments:
        yield _table(("Argument", "Meaning"), [(f"`{word}`", meaning) for word, meaning in command.arguments])
    yield _table(("Option", "Value", "Default", "Meaning"), [_row(option) for option in command.options])


def _row(option: Option) -> tuple[str, ...]:
    default = "required" if option.required else f"`{option.default}`" if option.default else ""
    return ", ".join(f"`{name}`" for name in option.names), option.value, default, option.help


def _link(command: Command) -> str:
    return f"[`{command.name}`](#steelyard-{command.name.replace(' ', '-')})"


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def main(arguments: list[str]) -> int:
    path, text = ROOT / PAGE, page(steelyard_app)
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return 0
    if "--check" in arguments:
        print(f"not what the commands say: {PAGE}; run `make reference`")
        return 1
    path.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
