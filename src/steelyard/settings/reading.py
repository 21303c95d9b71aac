"""Finding and reading the platform file.

`--platform` comes first, then `STEELYARD_PLATFORM`, then `./platform.yaml`; without any of them the defaults hold.
Every mistake is reported at once, each with its line: keys are checked on the YAML nodes (which know where they
stand), values by the models, whose error locations are looked up in the same nodes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args, get_origin

import pydantic
import yaml

from steelyard.api.infrastructures import OFFERED
from steelyard.settings.model import OFFERED_INFRASTRUCTURES, Platform, SettingsModel
from steelyard.settings.problems import Problem, SettingsError, unknown_key, wrong_value

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

VARIABLE = "STEELYARD_PLATFORM"
FILE_NAME = "platform.yaml"


def read(
    explicit: Path | None = None, *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> Platform:
    """The platform's settings from where they are to be found, or the defaults."""
    path = find(explicit, environ=environ, directory=directory)
    return load(path) if path is not None else Platform.known()


def find(
    explicit: Path | None = None, *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> Path | None:
    """The file to use. One that was named is used even if it does not exist: `load` then says so."""
    if explicit is not None:
        return explicit
    named = (os.environ if environ is None else environ).get(VARIABLE)
    if named:
        return Path(named)
    beside = (Path.cwd() if directory is None else directory) / FILE_NAME
    return beside if beside.is_file() else None


def load(path: Path, *, infrastructures: Sequence[str] = OFFERED) -> Platform:
    """`infrastructures` are what the platform that reads it can make machines of."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError([Problem(str(path), 0, f"cannot be read: {error.strerror or error}")]) from error
    except UnicodeDecodeError as error:
        raise SettingsError([Problem(str(path), 0, f"is not UTF-8 text: {error.reason}")]) from error
    return parse(text, str(path), infrastructures=infrastructures)


def parse(text: str, file: str = FILE_NAME, *, infrastructures: Sequence[str] = OFFERED) -> Platform:
    """The settings in a text; `file` is what the text is called in messages."""
    try:
        # PyYAML's stubs leave the loader's types open, here and in `_value`.
        root = cast("yaml.Node | None", yaml.compose(text, Loader=_LOADER))  # pyright: ignore[reportUnknownMemberType]
        document = _Document(file)
        content = document.read(root)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        words = ", ".join(filter(None, (error.context, error.problem)))
        raise SettingsError([Problem(file, line, f"not valid YAML: {words}")]) from error
    except yaml.YAMLError as error:
        raise SettingsError([Problem(file, 0, f"not valid YAML: {error}")]) from error
    platform: Platform | None = None
    try:
        context = {OFFERED_INFRASTRUCTURES: tuple(infrastructures)}
        platform = Platform.model_validate(content, by_alias=True, by_name=False, context=context)
    except pydantic.ValidationError as error:
        for detail in error.errors(include_url=False):
            document.report(detail)
    if document.problems or platform is None:
        raise SettingsError(sorted(document.problems, key=lambda problem: problem.line))
    return platform


class _Document:
    """One file on its way from YAML nodes to values; remembers on which line each key stands."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self._lines: dict[tuple[str, ...], int] = {}
        self._constructor = yaml.SafeLoader("")

    def read(self, root: yaml.Node | None) -> dict[str, Any]:
        if root is None or (isinstance(root, yaml.ScalarNode) and root.tag == "tag:yaml.org,2002:null"):
            return {}
        if not isinstance(root, yaml.MappingNode):
            self._add(root, "must be a mapping of keys to values, e.g. domain: example.org")
            return {}
        return self._mapping(root, Platform, ())

    def report(self, detail: Any) -> None:
        """A value error of the models, at the line of the innermost key that the file has."""
        # pydantic calls the name of an entry [key].
        path = tuple(str(step) for step in detail["loc"] if isinstance(step, str) and step != "[key]")
        line = next((self._lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self._lines), 1)
        self.problems.append(Problem(self.file, line, wrong_value(".".join(path), detail, _allowed(path))))

    def _mapping(self, node: yaml.MappingNode, model: type[SettingsModel], path: tuple[str, ...]) -> dict[str, Any]:
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        self._refuse_duplicates(node, path)
        self._constructor.flatten_mapping(node)
        result: dict[str, Any] = {}
        for key_node, value_node in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            key = self._key(key_node)
            here = (*path, key)
            if key not in fields:
                self._add(key_node, unknown_key(".".join(path), key, list(fields)))
                continue
            self._lines[here] = key_node.start_mark.line + 1
            section, each = _section(fields[key].annotation), _sections(fields[key].annotation)
            if section is not None and isinstance(value_node, yaml.MappingNode):
                result[key] = self._mapping(value_node, section, here)
                continue
            if each is not None and isinstance(value_node, yaml.MappingNode):
                result[key] = self._named(value_node, each, here)
                continue
            value = self._value(value_node)
            # A section whose keys are all commented out is an empty section.
            result[key] = {} if (section or each) is not None and value is None else value
        return result

    def _named(self, node: yaml.MappingNode, model: type[SettingsModel], path: tuple[str, ...]) -> dict[str, Any]:
        """Sections of one kind under names that the file chooses."""
        self._refuse_duplicates(node, path)
        self._constructor.flatten_mapping(node)
        result: dict[str, Any] = {}
        for key_node, value_node in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            key = self._key(key_node)
            here = (*path, key)
            self._lines[here] = key_node.start_mark.line + 1
            is_section = isinstance(value_node, yaml.MappingNode)
            value = self._mapping(value_node, model, here) if is_section else self._value(value_node)
            result[key] = {} if value is None else value
        return result

    def _refuse_duplicates(self, node: yaml.MappingNode, path: tuple[str, ...]) -> None:
        first: dict[str, int] = {}
        for key_node, _ in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            key = self._key(key_node)
            line = key_node.start_mark.line + 1
            if key in first:
                self._add(key_node, f"duplicate key {'.'.join((*path, key))}; it stands on line {first[key]} already")
            first.setdefault(key, line)

    def _key(self, node: yaml.Node) -> str:
        return str(node.value) if isinstance(node, yaml.ScalarNode) else "?"

    def _value(self, node: yaml.Node) -> Any:
        return self._constructor.construct_object(node, deep=True)  # pyright: ignore[reportUnknownMemberType]

    def _add(self, node: yaml.Node, message: str) -> None:
        self.problems.append(Problem(self.file, node.start_mark.line + 1, message))


def _section(annotation: Any) -> type[SettingsModel] | None:
    """The model of a field that is a section of its own, None for a plain value."""
    is_section = isinstance(annotation, type) and issubclass(cast("type[Any]", annotation), SettingsModel)
    return cast("type[SettingsModel]", annotation) if is_section else None


def _sections(annotation: Any) -> type[SettingsModel] | None:
    """The model of each value of a field that maps names to sections."""
    return _section(get_args(annotation)[1]) if get_origin(annotation) is dict else None


def _allowed(path: tuple[str, ...]) -> tuple[Any, ...]:
    """The values of the enumeration at a path of the file."""
    model: type[SettingsModel] = Platform
    steps = iter(path)
    for step in steps:
        field = next((field for name, field in model.model_fields.items() if step in (field.alias, name)), None)
        if field is None:
            return ()
        section, each = _section(field.annotation), _sections(field.annotation)
        if each is not None:
            next(steps, None)
        elif section is None:
            return get_args(field.annotation)
        model = cast("type[SettingsModel]", section or each)
    return ()
