"""What databases are given and what they may do, wherever their server is: backups, extensions, copies, how long an old
login lives.
"""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from steelyard.api import durations
from steelyard.api.durations import PATTERN
from steelyard.settings.base import SettingsModel

_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
NamespaceName = Annotated[str, Field(pattern=rf"^{_LABEL}$")]
ServerName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z_][a-z0-9_-]*$")]
ExtensionName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z][a-z0-9_-]*$")]
SourceName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]


def _between(least: str, most: str) -> AfterValidator:
    def check(value: str) -> str:
        span = durations.seconds(value)
        low, high = durations.seconds(least), durations.seconds(most)
        if span is None or low is None or high is None or not low <= span <= high:
            raise ValueError(f"must be from {least} to {most}, as in {most}")
        return value

    return AfterValidator(check)


Overlap = Annotated[str, Field(pattern=PATTERN), _between("1m", "168h")]
Grace = Annotated[str, Field(pattern=PATTERN), _between("1m", "24h")]
Interval = Annotated[str, Field(pattern=PATTERN), _between("1h", "8760h")]
Lifetime = Annotated[str, Field(pattern=PATTERN), _between("10m", "8760h")]

TRUSTED: Final = (
    "btree_gin",
    "btree_gist",
    "citext",
    "cube",
    "dict_int",
    "fuzzystrmatch",
    "hstore",
    "intarray",
    "isn",
    "ltree",
    "pg_trgm",
    "pgcrypto",
    "seg",
    "tablefunc",
    "tsm_system_rows",
    "tsm_system_time",
    "unaccent",
    "uuid-ossp",
)
"""Those that PostgreSQL itself lets an owner install: they reach nothing outside of the database."""


class DatabaseBackups(SettingsModel):
    """Of databases whose claim does not say."""

    every: Interval = Field(default="24h", description="How often a dump is made.")
    keep: Annotated[int, Field(ge=1, le=1000)] = Field(default=7, description="How many of them are kept.")


class Clones(SettingsModel):
    """Claims in some namespaces may be masked copies of databases in others."""

    claims_in: tuple[NamespaceName | Literal["*"], ...] = Field(
        min_length=1, strict=False, description="Namespaces of the claims that ask for a copy; * is any."
    )
    of: tuple[NamespaceName, ...] = Field(
        min_length=1, strict=False, description="Namespaces of the databases that are copied, each by its name."
    )


class Template(SettingsModel):
    """A database that nobody connects to, of which new ones can be made."""

    database: ServerName = Field(description="Its name on the server.")
    owner: ServerName | None = Field(
        default=None,
        description="The role that has what is in it: owners of databases made of it become its members. Unset: what "
        "is in it is everybody's.",
    )


class Source(SettingsModel):
    """A claim for a database, by its place."""

    namespace: NamespaceName = Field(description="Of the claim.")
    name: SourceName = Field(description="Of the claim.")


class DatabaseTerms(SettingsModel):
    """What a claim for a database can ask for, and what it gets without asking."""

    extensions: tuple[ExtensionName, ...] = Field(
        default=TRUSTED,
        strict=False,
        description="Extensions that claims may ask for. The default are those that an owner could install anyway; one "
        "that reads files or reaches other servers gives that to every tenant.",
    )
    version: Annotated[int, Field(ge=9, le=99)] | None = Field(
        default=None,
        description="The server's major version, where its provider does not say: claims that need a newer one are "
        "refused.",
    )
    rotation_overlap: Overlap = Field(
        default="1h", description="How long the login before a rotation still works, as in 1h."
    )
    clone_grace: Grace = Field(
        default="10m", description="How long sessions in a copy go on once a newer one has taken its place."
    )
    backup: DatabaseBackups = Field(
        default=DatabaseBackups.known(), description="Backups of databases whose claim says nothing of them."
    )
    clones: tuple[Clones, ...] = Field(
        default=(),
        strict=False,
        description="Who may have masked copies of whose databases without a right of their own to the data: "
        "{claimsIn: [sandbox], of: [production]}.",
    )
    templates: tuple[Template, ...] = Field(
        default=(), strict=False, description="Closed databases of which claims may be made (spec.parameters.template)."
    )
    sources: dict[SourceName, Source] = Field(
        default={},
        max_length=100,
        description="What the annotation `source` of a claim stands for, as in production-clone: {namespace: "
        "production, name: production-database}. Such a copy is always masked, and needs no right of the author.",
    )

    def clone_grants(self) -> dict[str, tuple[str, ...]]:
        """Namespaces of what may be copied, by that of the claims."""
        found: dict[str, set[str]] = {}
        for grant in self.clones:
            for place in grant.claims_in:
                found.setdefault(place, set()).update(grant.of)
        return {place: tuple(sorted(each)) for place, each in sorted(found.items())}

    def may_clone(self, claims_in: str, of: str) -> bool:
        granted = self.clone_grants()
        return of in granted.get(claims_in, ()) or of in granted.get("*", ())

    def template(self, name: str) -> Template | None:
        return next((each for each in self.templates if each.database == name), None)
