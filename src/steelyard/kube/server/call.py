"""One API request after routing and authentication, and its answer: the border between the transports and the verbs.

`application.py` makes a `Call` from an HTTP request, the in-process client makes one directly; both hand it to
`Api.call` or `Api.watch`, so that authorisation, admission and validation are the same for everyone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import orjson

from steelyard.frozen import frozen
from steelyard.kube.objects import Object
from steelyard.kube.store.record import Record

if TYPE_CHECKING:
    from steelyard.kube.server.fairness.shares import Flow
    from steelyard.kube.server.listing import Listing

Verb = Literal["", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
PatchType = Literal["", "merge", "json", "strategic", "apply"]
Representation = Literal["object", "table", "metadata"]
MetaVersion = Literal["v1", "v1beta1"]

SYSTEM_MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"


@frozen
class User:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]], hash=False)


@dataclass(slots=True)
class Payload:
    """A body as it came over the network. Answers quote it, and it tells what its decoded value no longer does: fields
    given twice, numbers as they were written.
    """

    content_type: str
    data: bytes
    form: Literal["", "json", "yaml", "protobuf"] = ""
    """How it was read."""
    repeated: tuple[str, ...] = ()
    """The keys that a YAML body gives twice: `line 6: key "k" already set in map`."""
    ahead: tuple[Any, ...] = ()
    """What it says, if it was read ahead."""
    problem: Exception | None = None
    """Or what was wrong with it."""


@dataclass(slots=True)
class Call:
    verb: Verb
    """Empty for a method that means none: no resource takes it, but rules may still speak of it."""
    group: str
    version: str
    plural: str
    user: User
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    """The query parameters as Kubernetes names them: labelSelector, fieldManager, dryRun, propagationPolicy, …"""
    body: Any = None
    """The decoded body: an object, a JSON patch, DeleteOptions. The server may keep it; callers must not change it."""
    patch_type: PatchType = ""
    representation: Representation = "object"
    """Asked for with the Accept header: the object, a Table for printing, or PartialObjectMetadata."""
    payload: Payload | None = None
    """What the body is yet to be decoded from (`bodies`), for a call that came over the network with one."""
    annotations: dict[str, str] | None = None
    """What webhooks want the audit log to say about it; filled in on the way."""
    meta_version: MetaVersion = "v1"
    """Of the Table or PartialObjectMetadata."""
    regular: bool = True
    """Whether built-in resources take the method on such a path; custom ones go by the verb alone."""
    is_light: bool = True
    """Whether it is small enough to go through all stages at once; else its pure stages take the `lane`."""
    flow: Flow | None = None
    """Whose it is where several wait their turn."""
    is_authorized: bool = field(default=False, init=False)
    """Set by `Api.authorize` alone: the user may do this."""
    found: tuple[int, Any] | None = field(default=None, init=False)
    """Set by `Api.check`: what it is about, and as of which state of the server's resources."""


@dataclass(slots=True)
class Reply:
    """`raw` is the body's JSON where the server has it ready (straight from the store), `listing` a list of which it
    has the parts; else `body` is encoded.

    With `raw` and `listing` come the record or records, for a caller in the same process who wants objects, not bytes.
    """

    code: int
    body: Object | None = None
    raw: bytes | None = None
    warnings: tuple[str, ...] = ()
    record: Record | None = None
    listing: Listing | None = None

    def text(self) -> bytes:
        """The body's JSON, whatever it is made of."""
        if self.raw is not None:
            return self.raw
        return self.listing.text() if self.listing is not None else orjson.dumps(self.body)
