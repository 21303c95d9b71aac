"""The hooks a kind may have. All are functions of their arguments; strategies are shared by every server.

Order on create: status is dropped (unless `keeps_status`), `prepare_create`, metadata is filled in and judged,
`validate_create`, `allocate`, then `warnings`. On update the same with `prepare_update` and `validate_update`; `old` is
never changed. A write to a subresource calls `prepare_part` and `validate_part` instead. `involve` comes last. What
every object has (names, labels, owners) is judged elsewhere.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from steelyard.kube import fields, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object

if TYPE_CHECKING:
    from steelyard.kube.resources import Resource
    from steelyard.kube.server.call import Call
    from steelyard.kube.server.rights.authz import Authorizer
    from steelyard.kube.store.record import Record


class Taken(Protocol):
    """What other objects of the server hold already, and what there is to hold."""

    @property
    def range(self) -> ipaddress.IPv4Network: ...

    def address(self, address: str) -> bool: ...

    def port(self, port: int) -> bool: ...


class Found(Protocol):
    @property
    def resource(self) -> Resource: ...


class Kinds(Protocol):
    def of_kind(self, group: str, kind: str) -> Found | None: ...


class Around(Protocol):
    """The server that an object is written to."""

    @property
    def authorizer(self) -> Authorizer: ...

    @property
    def registry(self) -> Kinds: ...

    def head(self, resource: Resource, namespace: str, name: str) -> Record: ...

    def timestamp(self) -> str: ...


class Strategy:
    tracks_generation: bool = False
    """metadata.generation starts at 1 and grows with every change of the spec."""
    is_judged_by_schema: bool = True
    """What upstream's OpenAPI says of the kind is checked before its own rules; they say all that counts if not."""
    names_itself: bool = False
    """An object without a name gets a uid for one."""
    keeps_status: bool = False
    """A create may say what the status is, as kubelet does when it registers its node."""
    counts_annotations: bool = False
    """The generation grows with changes of the annotations too."""
    judges_metadata: bool = False
    """`validate_create` looks at the metadata too, since upstream does so in an order of its own."""
    creates_on_update: bool = False
    """An update of what is not there creates it."""
    involves_caller: bool = False
    """`involve` has something to say."""
    holds_texts: bool = False
    """Besides its metadata an object is mostly a map of texts, for which `candidates.plain` knows the rules."""
    keeps_spec: bool = False
    """What a client writes as spec is managed by nobody: the server settles it once and for all."""

    def prepare_create(self, obj: Object) -> None:
        """Defaults, and fields that a client cannot choose; in place."""

    def complete_create(self, obj: Object) -> None:
        """What the server adds to a new object by itself, so that no manager has it; in place."""

    def prepare_update(self, obj: Object, old: Object) -> None:
        """As `prepare_create`, on an update; in place."""
        del old
        self.prepare_create(obj)

    def complete_update(self, obj: Object, old: Object) -> None:
        """As `complete_create`, on an update; in place."""
        del obj, old

    def prepare_part(self, obj: Object, old: Object, subresource: str) -> None:
        """The same on a write to a subresource such as `status`; in place."""
        del obj, old, subresource

    def validate_create(self, obj: Object) -> list[Cause]:
        del obj
        return []

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        del old
        return self.validate_create(obj)

    def validate_part(self, obj: Object, old: Object, subresource: str) -> list[Cause]:
        del obj, old, subresource
        return []

    def allocate(self, obj: Object, taken: Taken) -> list[Cause]:
        """Picks what must be unique among all objects, such as addresses; in place. Complains of what is taken."""
        del obj, taken
        return []

    def involve(self, obj: Object, old: Object | None, call: Call, around: Around) -> None:
        """Puts in what depends on who asks and when, last of all, and raises an ApiError if they may not; in place."""

    def warnings(self, obj: Object, old: Object | None = None) -> tuple[str, ...]:
        del obj, old
        return ()


class Tracked(Strategy):
    """A kind without rules of its own whose generation counts."""

    tracks_generation = True


def spec(obj: Object) -> Object:
    """The object's spec, to be changed in place: an absent one is added."""
    found = obj.get("spec")
    if not isinstance(found, dict):
        found = obj["spec"] = {}
    return objects.mapping(found)


def default(target: Object, key: str, value: Any) -> None:
    """Fills in a field that is absent, null or an empty text."""
    if target.get(key) in (None, ""):
        target[key] = value


def immutable(obj: Object, old: Object, *paths: tuple[str, ...]) -> list[Cause]:
    """Complains of each path whose value differs."""
    found: list[Cause] = []
    for path in paths:
        value = objects.at(obj, *path)
        if (value or None) != (objects.at(old, *path) or None):
            found.append(fields.invalid(".".join(path), value, "field is immutable"))
    return found


def non_negative(target: Object, path: str, keys: Iterable[str]) -> list[Cause]:
    return [
        fields.invalid(f"{path}.{key}", target[key], "must be greater than or equal to 0")
        for key in keys
        if isinstance(target.get(key), int) and target[key] < 0
    ]
