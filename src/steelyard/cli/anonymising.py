"""What would happen to each column of a database in a masked copy, for `steelyard db anonymise --check`.

The database is read with the login that the caller has; nothing is written there, and what is shown of values is their
masked form.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

import pydantic
from pydantic import SecretStr

from steelyard.cli import output
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.output import Format
from steelyard.kube import objects, plainyaml
from steelyard.kube.objects import Object
from steelyard.masking.job import Endpoint, Job, Verdict
from steelyard.masking.rules import MaskingRules

_HEADINGS: Final = ("TABLE", "COLUMN", "TYPE", "ACTION", "EXAMPLE", "REASON")
_SECONDS: Final = 600


def read(file: Path) -> Any:
    """Rules from a file: those of spec.parameters.masking, or a claim that has them."""
    content = plainyaml.load(file.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise CommandError(f"{file}: there are no rules in it", code=Exit.USAGE)
    found = cast(Object, content)
    of_claim = objects.at(found, "spec", "parameters", "masking")
    return found if of_claim is None else of_claim


def verdict(dsn: str, said: Any) -> Verdict:
    try:
        rules = MaskingRules.model_validate(said)
    except pydantic.ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise CommandError(f"the rules cannot be read: {problems}", code=Exit.USAGE) from error
    from steelyard.masking import copying  # here, as it brings the driver

    job = Job(source=Endpoint(dsn=dsn), rules=rules, key=SecretStr(secrets.token_hex(32)), deadline_seconds=_SECONDS)
    found = copying.run(job, lambda _: None)
    if found.outcome == "failed":
        raise CommandError(f"the database could not be looked at: {found.message}")
    return found


def show(found: Verdict, format_: Format) -> None:
    if format_ in (Format.JSON, Format.YAML):
        body = found.to_json()
        output.result(output.as_json(body) if format_ is Format.JSON else output.as_yaml(body).rstrip())
        return
    for line in output.aligned([_HEADINGS, *_rows(found.columns)], width=output.columns(), droppable=("TYPE",)):
        output.result(line)
    columns = {(each["table"], each["column"]) for each in found.columns if each["action"] == "refused"}
    others = [each for each in found.refusals if not any(table and f"{table}" in each for table, _ in columns)]
    for each in (*others, *found.notes):
        output.note(each)
    output.note(f"{found.message}.")


def _rows(columns: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    keys = ("table", "column", "type", "action", "example", "reason")
    return [tuple(str(each.get(key) or "") for key in keys) for each in columns]
