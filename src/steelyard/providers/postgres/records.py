"""What a managed resource records of the thing that it stands for, in the annotations that Crossplane's runtime uses.

    crossplane.io/external-name              what it is called on the server
    crossplane.io/external-create-pending    it is about to be made: written before the statement
    crossplane.io/external-create-succeeded  it was made, or -failed it was not

They say whose a database or a role on the server is: an object that never set out to make it has nothing to do with it.
Whoever made it, this provider or provider-sql, leaves the same record, so that either knows what the other made.
"""

from __future__ import annotations

import datetime
from typing import Final

from steelyard.api.crossplane import EXTERNAL_NAME
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock

PENDING: Final = "crossplane.io/external-create-pending"
SUCCEEDED: Final = "crossplane.io/external-create-succeeded"
FAILED: Final = "crossplane.io/external-create-failed"
ADOPT: Final = "steelyard.dev/adopt"
"""With the value true: what is there under the name is to be the object's, though somebody else made it."""
PAUSED: Final = "crossplane.io/paused"
FINALIZER: Final = "finalizer.managedresource.crossplane.io"
_LONG_AGO: Final = datetime.datetime.min.replace(tzinfo=datetime.UTC)


def external_name(obj: Object) -> str:
    return objects.annotations(obj).get(EXTERNAL_NAME) or objects.name(obj)


def is_paused(obj: Object) -> bool:
    return objects.annotations(obj).get(PAUSED) == "true"


def is_ours(obj: Object) -> bool:
    """Whether the object, or somebody for it, set out to make the thing and did not find that it failed."""
    annotations = objects.annotations(obj)
    if annotations.get(ADOPT) == "true" or SUCCEEDED in annotations:
        return True
    return PENDING in annotations and _moment(obj, PENDING) > _moment(obj, FAILED)


def is_unfinished(obj: Object) -> bool:
    """Whether making it was begun and no end of that is recorded."""
    return _moment(obj, PENDING) > max(_moment(obj, SUCCEEDED), _moment(obj, FAILED))


def _moment(obj: Object, annotation: str) -> datetime.datetime:
    """Long ago where it is missing, or no time."""
    try:
        return clock.parse_rfc3339(objects.annotations(obj).get(annotation, ""))
    except ValueError:
        return _LONG_AGO


def annotated(obj: Object, **annotations: str) -> Object:
    """A copy with annotations; keys as above, in lower case without their prefix."""
    wanted = objects.copy(obj)
    known = {"name": EXTERNAL_NAME, "pending": PENDING, "succeeded": SUCCEEDED, "failed": FAILED}
    given = {known[key]: value for key, value in annotations.items()}
    wanted["metadata"]["annotations"] = {**objects.annotations(obj), **given}
    return wanted
