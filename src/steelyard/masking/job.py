"""What `python -m steelyard.masking` is told on its standard input, and the lines that it answers with.

The job carries passwords and the key, so it is never in arguments, the environment or a file.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SecretStr

from steelyard.api.model import ApiModel
from steelyard.frozen import frozen
from steelyard.masking.rules import MaskingRules

Outcome = Literal["copied", "planned", "refused", "leaked", "failed"]
EXIT_CODES: dict[Outcome, int] = {"copied": 0, "planned": 0, "failed": 1, "refused": 2, "leaked": 3}


class Endpoint(ApiModel):
    """A database and who logs in to it. The login should be able to do no more than the copy needs: of the source,
    read all rows (pg_read_all_data); of the target, own it or be a member of its owner. Code of a tenant's own (in
    checks, generated columns and indexes) runs on the target with its rights."""

    dsn: str = Field(max_length=4096, description="As libpq reads it: `host=... dbname=...` or a URI.")
    password: SecretStr | None = Field(default=None, description="Where the DSN has none.")


class Job(ApiModel):
    """One copy. The target is an empty database."""

    source: Endpoint
    target: Endpoint | None = Field(default=None, description="None: only say what would happen.")
    owner: str | None = Field(default=None, max_length=63, description="The role that owns all of the copy.")
    rules: MaskingRules
    key: SecretStr = Field(description="At least 32 characters. Fresh for each copy, unless copies shall join.")
    programs: str | None = Field(default=None, description="The folder with pg_dump, pg_restore and psql; else PATH.")
    workers: int = Field(
        default=2, ge=1, le=32, description="Tables that are copied, and indexes that are made, at once."
    )
    deadline_seconds: int = Field(default=6 * 3600, ge=1, description="Then it is given up.")
    sampled_rows: int = Field(default=5000, ge=0, le=1_000_000, description="Of each column, read for words that leak.")
    compared_values: int = Field(
        default=20_000, ge=1, description="Of each masked column, compared one by one between source and copy; about."
    )


@frozen
class Verdict:
    """The last line."""

    outcome: Outcome
    message: str
    """For people, without any value from a row."""
    refusals: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tables: int = 0
    rows: int = 0
    seconds: dict[str, float] | None = None
    """By stage."""
    columns: tuple[dict[str, Any], ...] = ()
    """With a job without target: the rows of `checking.py`."""

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.outcome,
            "message": self.message,
            "refusals": list(self.refusals),
            "leaks": list(self.leaks),
            "notes": list(self.notes),
            "tables": self.tables,
            "rows": self.rows,
            "seconds": self.seconds or {},
            "columns": list(self.columns),
        }
