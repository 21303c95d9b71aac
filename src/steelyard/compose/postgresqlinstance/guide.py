"""What the reference page tells of PostgreSQLInstance besides its fields."""

from __future__ import annotations

from typing import Final

from steelyard.compose.claimkind import Guide, Reported

GUIDE: Final = Guide(
    example={
        "parameters": {"environment": "dev", "size": "small", "storageGB": 20},
        "writeConnectionSecretToRef": {"name": "postgres-connection"},
    },
    notes=(
        "A claim becomes two Roles, a Database and two Grants of Crossplane's provider-sql, which must be installed, "
        "with the ProviderConfig that the platform file names. A role that cannot log in owns the database; the login "
        "is a member of it and acts as it. Nobody else may connect.",
        "The database is called `<prefix><namespace>_<name>_<digits>`, with the environment's `databasePrefix`; for "
        "`pr-<n>` the prefix is `pr_<n>_`. The namespace is left out where it is called as the environment. The name "
        "stays as it is, whatever becomes of the prefix.",
        "The annotation `crossplane.io/external-name` gives it another name. It must begin with the prefix, or with "
        "the environment's name and `-` or `_`, unless `postgresql.externalNames` in the platform file grants it "
        "to the claim's namespace; it must not be another claim's; and it cannot be set, changed or taken off later. A "
        "database that is on the server under that name already is taken over: names with an environment's prefix are "
        "the platform's to give.",
        "Of a size, the number of connections is a limit. Timeouts and memory are what a session begins with; the "
        "application may change them with `SET`.",
        "With `integrations.vault` enabled, the keys `host`, `port`, `database`, `username`, `password` and "
        "`database-url` are put at `vaultPath` by a PushSecret of External Secrets.",
    ),
    conditions=(
        Reported("Synced", "False", "EnvironmentNotAvailable", "The platform file no longer has that environment."),
        Reported("Synced", "False", "ExternalNameTaken", "The database of that name is another claim's."),
        Reported("Synced", "False", "ExternalNameForbidden", "The claim may not have a database of that name."),
        Reported(
            "Synced", "False", "ExternalNameChanged", "The annotation no longer says what the database is called."
        ),
        Reported("Synced", "False", "VaultPathForbidden", "The path is not one for this claim to write to."),
        Reported("Ready", "True", "Available", "The database is as asked for and can be used."),
        Reported("Ready", "True", "Updating", "It can be used while it is changed."),
        Reported("Ready", "False", "Creating", "The database is being made; the message says what is waited for."),
        Reported("Ready", "False", "Degraded", "It had been ready, and a part of it no longer is."),
        Reported("UpToDate", "True", "AsAskedFor", "The database is exactly what the claim asks for."),
        Reported("UpToDate", "False", "", "It is not, or not yet; the reason is that of `Ready`."),
        Reported("InForce", "False", "NotAvailable", "What the claim says and this version does not act on."),
    ),
    deletion="the connection Secret and what is in Vault go first, then the Grants, then the Database with everything "
    "in it, then the Roles",
)
