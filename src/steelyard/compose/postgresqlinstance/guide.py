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
        "A claim becomes Roles, a Database, Grants and Extensions of Crossplane's provider-sql, beside a DatabaseUsage "
        "and a DatabaseBackup of ours. A role that cannot log in owns the database; logins are members of it and act "
        "as it. Nobody else may connect.",
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
        "`storageGB` is watched. From 80 % and from 95 % on the condition `StorageLow` tells; from 100 % on new "
        "sessions are read-only by default, which a session may lift with `SET default_transaction_read_only = off`, "
        "to delete; from 110 % on there are no new sessions until `steelyard db open` grants one, or the database has "
        "shrunk.",
        "A rotation (`rotateEvery`, or `steelyard db rotate`) makes a new login, `<database>_r<n>`. The connection "
        "Secret changes as a whole when the new login works; the old one works on for `postgresql.rotationOverlap`. "
        "While three old ones do, no further one is made.",
        "`cloneFrom` makes a copy of another claim's database, masked by the rules that the other claim has in "
        "`masking`. Each refresh is a new database, `<database>_c<n>`: nobody connects before it is complete and was "
        "found free of leaks; then the connection Secret changes, sessions in the old one go on for "
        "`postgresql.cloneGrace`, and it is dropped. A copy of a database in another namespace needs the author's "
        "right to read Secrets there, asked for when the claim is written and whenever a copy is made; or, masked, a "
        "grant in `postgresql.clones`.",
        "`ttl` counts from the creation of the claim. The field counts before the annotation `ttl`, and that before "
        "the default for pull requests. The end is announced at least five minutes before, in the condition "
        "`Expiring`: so a claim with a shorter ttl lives for five minutes.",
        "Composition revision v1 has one login for ever, makes no backups and acts on none of the fields after "
        "`multiTenant`; `steelyard revise NAME --to v2` moves a claim, which keeps its database, login and password.",
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
        Reported("Synced", "False", "ExtensionForbidden", "The platform file does not allow the extension."),
        Reported("Synced", "False", "TemplateForbidden", "The platform file does not allow the template."),
        Reported("Synced", "False", "ServerTooOld", "The server is older than `version` asks for."),
        Reported("Synced", "False", "CloneForbidden", "The author may not have a copy of that data."),
        Reported("Synced", "False", "VaultPathForbidden", "The path is not one for this claim to write to."),
        Reported("Ready", "True", "Available", "The database is as asked for and can be used."),
        Reported("Ready", "True", "Updating", "It can be used while it is changed."),
        Reported("Ready", "False", "Creating", "The database is being made; the message says what is waited for."),
        Reported("Ready", "False", "Degraded", "It had been ready, and a part of it no longer is."),
        Reported("UpToDate", "True", "AsAskedFor", "The database is exactly what the claim asks for."),
        Reported("UpToDate", "False", "", "It is not, or not yet; the reason is that of `Ready`."),
        Reported("UpToDate", "False", "Waiting", "It can be used; something beside it is not done, as in Vault."),
        Reported("UpToDate", "False", "NotDelivered", "It can be used; a delivery into a cluster is not done."),
        Reported("Delivered", "False", "NotDelivered", "A delivery into a cluster is not done; the message says why."),
        Reported("StorageLow", "True", "Low", "More than 80 % of `storageGB` is used."),
        Reported("StorageLow", "True", "AlmostFull", "More than 95 % is."),
        Reported("StorageLow", "True", "ReadOnly", "More than 100 % is: new sessions are read-only by default."),
        Reported("StorageLow", "True", "Closed", "More than 110 % is: there are no new sessions."),
        Reported("BackedUp", "True", "Available", "There is a backup; the message says of when."),
        Reported("BackedUp", "False", "NoneYet", "There is none yet."),
        Reported("BackedUp", "False", "Failing", "The last one failed; the message says why."),
        Reported("Expiring", "True", "EndOfLife", "The claim is deleted soon; the message says when."),
        Reported("Expiring", "False", "Protected", "Its time is over, and it stays since it is protected."),
        Reported("InForce", "False", "NotAvailable", "What the claim says and this version does not act on."),
    ),
    deletion="the connection Secret, deliveries and what is in Vault go first, then the Grants and backups, then the "
    "Database with everything in it, then the Roles",
)
