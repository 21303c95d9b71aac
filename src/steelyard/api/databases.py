"""Kinds that databases need and Crossplane's provider-sql lacks: how full one is, copies, backups, logins that end.

All are cluster-scoped, as provider-sql's are: nobody but the platform writes them, since each names a database on a
server by its name there. `spec.providerConfigRef` names a ProviderConfig of provider-sql, by which the server is
reached.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from steelyard.api import model
from steelyard.api.claims import NamespaceName, ObjectName
from steelyard.api.model import ApiModel, Column, Conditions, Kind, Timestamp
from steelyard.api.resources import DATABASE_BACKUPS, DATABASE_COPIES, DATABASE_USAGES, TEMPORARY_LOGINS
from steelyard.masking.rules import MaskingRules

USAGES: Final = DATABASE_USAGES
BACKUPS: Final = DATABASE_BACKUPS
COPIES: Final = DATABASE_COPIES
LOGINS: Final = TEMPORARY_LOGINS
CATEGORIES: Final = ("steelyard",)

ServerName = Annotated[str, Field(min_length=1, max_length=63)]
"""Of a database or a role: PostgreSQL cuts longer ones."""
Duration = Annotated[str, Field(pattern=r"^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?$", min_length=2, max_length=18)]
"""As in 24h, 1h30m, 90s."""


class ProviderConfigReference(ApiModel):
    name: ObjectName = Field(description="Of provider-sql's ProviderConfig.")


class SecretPlace(ApiModel):
    namespace: NamespaceName
    name: ObjectName


class SecretKey(SecretPlace):
    key: Annotated[str, Field(min_length=1, max_length=253)]


class OnServer(ApiModel):
    provider_config_ref: ProviderConfigReference = Field(description="The server.")
    database: ServerName = Field(description="The database's name there.")


class DatabaseUsageSpec(OnServer):
    """A database to be watched for how much it holds."""

    limit_bytes: Annotated[int, Field(ge=1)] = Field(description="What it is meant to hold.")


class DatabaseUsageStatus(ApiModel):
    size_bytes: int | None = Field(default=None, description="What it held when that was last reported.")
    percent: int | None = Field(
        default=None,
        description="Of the limit. Reported anew when it crosses 80, 95, 100 or 110, and when it has moved by five.",
    )
    measured_at: Timestamp | None = Field(default=None, description="When that was measured.")
    conditions: Conditions | None = None


class Dump(ApiModel):
    """A backup that was made and is kept."""

    name: str = Field(description="By which it can be restored.")
    at: Timestamp = Field(description="When it was begun: what it holds is the state of that moment.")
    size_bytes: int = Field(description="Of the file.")
    sha256: str = Field(description="Of the file.")
    reason: Literal["scheduled", "asked for"] = Field(description="Why it was made.")


class DatabaseBackupSpec(OnServer):
    """A database of which dumps are made."""

    every: Duration | None = Field(default=None, description="How often. Unset: only when asked for.")
    keep: Annotated[int, Field(ge=1, le=1000)] = Field(
        description="How many scheduled dumps are kept, and how many asked for; older ones are deleted."
    )
    trigger: Annotated[str, Field(max_length=253)] | None = Field(
        default=None, description="A new value asks for a dump now."
    )


class DatabaseBackupStatus(ApiModel):
    dumps: list[Dump] | None = Field(default=None, description="Those that are kept, the newest first.")
    trigger: str | None = Field(default=None, description="The last value of spec.trigger that was acted on.")
    due_at: Timestamp | None = Field(default=None, description="When the next scheduled one is made.")
    conditions: Conditions | None = None


class DumpReference(ApiModel):
    backup: ObjectName = Field(description="The DatabaseBackup.")
    name: Annotated[str, Field(min_length=1, max_length=253)] = Field(description="The dump's name in its status.")


class CopySource(ApiModel):
    """Where the data is from: a database, or a dump of one."""

    provider_config_ref: ProviderConfigReference | None = Field(default=None, description="The database's server.")
    database: ServerName | None = Field(default=None, description="Its name there.")
    dump: DumpReference | None = Field(default=None, description="Instead of a database: a dump.")


class DatabaseCopySpec(OnServer):
    """An empty database to be filled, once. Nobody may connect to it before it is Ready: its connectionLimit is 0."""

    owner: ServerName = Field(description="The role whose everything in it becomes.")
    source: CopySource
    masking: MaskingRules | None = Field(
        default=None, description="How each column is masked on the way. Unset: everything is copied as it is."
    )
    key_secret_ref: SecretKey | None = Field(
        default=None,
        description="The key by which values are masked, where several copies are to have the same values masked "
        "alike. Unset: one is made up, and forgotten.",
    )


class DatabaseCopyStatus(ApiModel):
    phase: Literal["Pending", "Copying", "Scanning", "Done", "Refused", "Failed"] | None = None
    started_at: Timestamp | None = None
    completed_at: Timestamp | None = Field(default=None, description="Recorded once; from then on it is left alone.")
    snapshot_at: Timestamp | None = Field(default=None, description="Of which moment its data is.")
    tables: int | None = None
    rows: int | None = None
    problems: list[str] | None = Field(
        default=None, max_length=200, description="Why it was refused: each column that is not classified, each leak."
    )
    conditions: Conditions | None = None


class Setting(ApiModel):
    name: Annotated[str, Field(min_length=1, max_length=63)]
    value: Annotated[str, Field(max_length=1000)]


class TemporaryLoginSpec(OnServer):
    """A login that ends by itself and is made anew before it does, for as long as the object is there."""

    name_prefix: Annotated[str, Field(min_length=1, max_length=50)] = Field(
        description="What the names of the logins begin with."
    )
    member_of: ServerName = Field(description="The role that it is a member of and acts as.")
    access: Literal["ReadWrite", "ReadOnly"] = Field(description="What it may do in the database.")
    valid_for: Duration = Field(description="How long each login lives. The next is made at two thirds of that.")
    connection_limit: Annotated[int, Field(ge=0, le=10_000)] = Field(description="Connections at once.")
    configuration_parameters: list[Setting] | None = Field(
        default=None, max_length=50, description="What sessions begin with."
    )
    trigger: Annotated[str, Field(max_length=253)] | None = Field(
        default=None, description="A new value asks for another login now; the one before lives to its end."
    )
    write_connection_secret_to_ref: SecretPlace = Field(
        description="Where the login in use is: username, password, endpoint, port, database, expires-at."
    )


class Login(ApiModel):
    name: str = Field(description="On the server.")
    expires_at: Timestamp = Field(description="When it ends: no new session from then on, and those there are ended.")


class TemporaryLoginStatus(ApiModel):
    login: Login | None = Field(default=None, description="The one in use.")
    former: list[Login] | None = Field(default=None, description="Those before it that have not ended yet.")
    serial: int | None = Field(default=None, description="Of the login in use; recorded before it is made.")
    trigger: str | None = None
    conditions: Conditions | None = None


_READY: Final = Column("Ready", ".status.conditions[?(@.type=='Ready')].status", "Whether it is as it should be.")
_DATABASE: Final = Column("Database", ".spec.database", "Its name on the server.")

KINDS: Final = (
    Kind(
        resource=USAGES,
        singular="databaseusage",
        description="How much a database holds, beside what it is meant to.",
        spec=DatabaseUsageSpec,
        status=DatabaseUsageStatus,
        categories=CATEGORIES,
        columns=(_DATABASE, Column("Percent", ".status.percent", "Of the limit.", "integer"), _READY, model.AGE),
    ),
    Kind(
        resource=BACKUPS,
        singular="databasebackup",
        description="Dumps of a database, made on a schedule and when asked for.",
        spec=DatabaseBackupSpec,
        status=DatabaseBackupStatus,
        categories=CATEGORIES,
        columns=(_DATABASE, Column("Due", ".status.dueAt", "When the next is made."), _READY, model.AGE),
    ),
    Kind(
        resource=COPIES,
        singular="databasecopy",
        description="A database that is filled once from another, or from a dump, masked or as it is.",
        spec=DatabaseCopySpec,
        status=DatabaseCopyStatus,
        categories=CATEGORIES,
        columns=(_DATABASE, Column("Phase", ".status.phase", "How far it is."), _READY, model.AGE),
    ),
    Kind(
        resource=LOGINS,
        singular="temporarylogin",
        description="A login that ends by itself.",
        spec=TemporaryLoginSpec,
        status=TemporaryLoginStatus,
        categories=CATEGORIES,
        columns=(
            _DATABASE,
            Column("Login", ".status.login.name", "The one in use."),
            Column("Expires", ".status.login.expiresAt", "When it ends."),
            _READY,
            model.AGE,
        ),
    ),
)
