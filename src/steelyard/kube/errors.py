"""The errors of the Kubernetes API, each a Status object for the wire and an exception for Python.

The server raises them, the HTTP layer writes `error.status()` with `error.code`, and the client turns a Status it
receives back into the same class (`from_status`), so that a reconciler catches `errors.NotFound` whichever transport
it uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object

_LONGEST_STORY: Final = 32
"""Errors that were the reason of another, one behind the other."""


@frozen
class Cause:
    """One thing wrong with a request: which field, what kind of wrong, in words."""

    field: str
    reason: str
    message: str

    def to_json(self) -> Object:
        cause: Object = {"reason": self.reason} if self.reason else {}
        cause["message"] = self.message
        if self.field:
            cause["field"] = self.field
        return cause


class ApiError(Exception):
    """Any answer that is not a success. Subclasses fix the HTTP code and the machine-readable reason."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"
    has_details: ClassVar[bool] = False
    """Whether the Status has details even if they say nothing, as upstream's has for some reasons."""

    def __init__(
        self,
        message: str,
        *,
        kind: str = "",
        group: str = "",
        name: str = "",
        uid: str = "",
        causes: Sequence[Cause] = (),
        retry_after: int = 0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.group = group
        self.name = name
        self.uid = uid
        self.causes = tuple(causes)
        self.retry_after = retry_after
        self.warnings: tuple[str, ...] = ()
        self.given: Object | None = None
        """The whole Status, where someone else than this server worded it."""

    def status(self) -> Object:
        if self.given is not None:
            return self.given
        details: Object = {}
        if self.name:
            details["name"] = self.name
        if self.group:
            details["group"] = self.group
        if self.kind:
            details["kind"] = self.kind
        if self.uid:
            details["uid"] = self.uid
        if self.causes:
            details["causes"] = [cause.to_json() for cause in self.causes]
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if details or self.has_details:
            status["details"] = details
        status["code"] = self.code
        return status


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason, has_details = 403, "Forbidden", True


class NotFound(ApiError):
    code, reason, has_details = 404, "NotFound", True


class NoSuchPath(NotFound):
    """Nothing is served there, so there is no Status either: over HTTP the answer is plain text, as upstream's."""


class MethodNotAllowed(ApiError):
    code, reason, has_details = 405, "MethodNotAllowed", True


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class NoSuchForm(NotAcceptable):
    """The same for a document that comes in one form only."""

    has_details = True


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    code, reason = 409, "Conflict"


class Expired(ApiError):
    """The asked-for resourceVersion is no longer retained: list again, or go on with the token if there is one."""

    code, reason = 410, "Expired"

    def __init__(self, message: str, *, continue_: str = "", **details: Any) -> None:
        super().__init__(message, **details)
        self.continue_ = continue_

    def status(self) -> Object:
        status = super().status()
        return {**status, "metadata": {"continue": self.continue_}} if self.continue_ else status


class TooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class UnroutableMediaType(UnsupportedMediaType):
    """Refused by upstream's router instead of its handlers, which leaves empty details."""

    has_details = True


class Invalid(ApiError):
    code, reason, has_details = 422, "Invalid", True


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class Overloaded(TooManyRequests):
    """Nothing is known yet of the request that is refused, so over HTTP the answer is plain text, as upstream's."""


class InternalError(ApiError):
    code, reason = 500, "InternalError"


class Unclassified(ApiError):
    """For some mistakes of clients upstream has no reason, only a text and 500. So that what is looked up there helps
    here, the answer is the same."""

    code, reason = 500, ""


class PlainInternalError(InternalError):
    """What upstream gives up on before it knows what is asked for: over HTTP the answer is plain text."""


class ServiceUnavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


class Timeout(ApiError):
    code, reason = 504, "Timeout"


_CLASSES: tuple[type[ApiError], ...] = (
    BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed, NotAcceptable, AlreadyExists, Conflict, Expired,
    TooLarge, UnsupportedMediaType, Invalid, TooManyRequests, InternalError, ServiceUnavailable, Timeout,
)  # fmt: skip


def forget_frames(error: BaseException) -> None:
    """For an error that has been told: where it came from is no longer of interest.

    What waited for a result holds the error, which holds the frames that it went through, which hold what waited: with
    everything that a request has brought, until somebody looks for garbage.
    """
    found: BaseException | None = error
    for _ in range(_LONGEST_STORY):
        if found is None:
            return
        found.__traceback__ = None
        found = found.__cause__ or found.__context__


def from_status(status: Object, code: int = 0) -> ApiError:
    """The exception for a Status received from a server; an unknown reason is classed by its HTTP code."""
    reason = str(status.get("reason") or "")
    code = int(status.get("code") or code)
    found = next((cls for cls in _CLASSES if cls.reason == reason), None)
    found = found or next((cls for cls in _CLASSES if cls.code == code), InternalError)
    details = objects.mapping(status.get("details"))
    causes = [
        Cause(str(cause.get("field") or ""), str(cause.get("reason") or ""), str(cause.get("message") or ""))
        for cause in map(objects.mapping, objects.sequence(details.get("causes")))
    ]
    return found(
        str(status.get("message") or f"the server answered {code}"),
        kind=str(details.get("kind") or ""),
        group=str(details.get("group") or ""),
        name=str(details.get("name") or ""),
        uid=str(details.get("uid") or ""),
        causes=causes,
        retry_after=int(details.get("retryAfterSeconds") or 0),
    )


_MOST_CAUSES = 1000
"""Nobody reads more, and telling them would take longer than finding them."""


def not_found(group_resource: str, name: str) -> NotFound:
    kind, _, group = group_resource.partition(".")
    return NotFound(f'{group_resource} "{name}" not found', kind=kind, group=group, name=name)


def internal(message: str) -> InternalError:
    return InternalError(f"Internal error occurred: {message}", causes=[Cause("", "", message)])


def already_exists(group_resource: str, name: str, *, is_going: bool = False) -> AlreadyExists:
    """`is_going`: it is being deleted, and something holds it."""
    kind, _, group = group_resource.partition(".")
    message = f'{group_resource} "{name}" already exists'
    return AlreadyExists(
        f"object is being deleted: {message}" if is_going else message, kind=kind, group=group, name=name
    )


def forbidden(group_resource: str, name: str, why: str, causes: Sequence[Cause] = ()) -> Forbidden:
    """`name` is empty for an object that has none yet."""
    kind, _, group = group_resource.partition(".")
    what = f'{group_resource} "{name}"' if name else group_resource
    return Forbidden(f"{what} is forbidden: {why}", kind=kind, group=group, name=name, causes=causes)


def conflict(group_resource: str, name: str, message: str) -> Conflict:
    kind, _, group = group_resource.partition(".")
    return Conflict(
        f'Operation cannot be fulfilled on {group_resource} "{name}": {message}',
        kind=kind,
        group=group,
        name=name,
    )


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> Invalid:
    """As kube-apiserver words it: `Machine.cluster.x-k8s.io "a" is invalid: spec.version: Required value`.

    Each cause's message is that of upstream's field error without the path ("Required value: must be set"). What is
    found twice is said once, though the causes list it twice.
    """
    qualified = f"{kind}.{group}" if group else kind
    if len(causes) > _MOST_CAUSES:
        left = Cause("", causes[0].reason, f"and {len(causes) - _MOST_CAUSES} more")
        causes = [*causes[:_MOST_CAUSES], left]
    listed = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    text = listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"
    return Invalid(f'{qualified} "{name}" is invalid: {text}', kind=kind, group=group, name=name, causes=causes)


def not_routed(message: str) -> NotAcceptable:
    """A form that no route of a built-in resource has; the Status then has details, though empty ones."""
    refusal = NotAcceptable(message)
    refusal.given = {**refusal.status(), "details": {}}
    return refusal


def of(error: Any) -> Object:
    """The Status of any exception; one that is not an ApiError becomes an InternalError without its inner details."""
    if isinstance(error, ApiError):
        return error.status()
    return InternalError("Internal error occurred: the server logged what went wrong").status()
