"""Crossplane's function protocol: a RunFunctionRequest to what is asked, and what is answered to a response.

Fields that a pipeline's other functions have filled in (desired resources of other names, the context) are passed on as
they came.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Final

import crossplane.function.proto.v1.run_function_pb2 as fn

from steelyard.compose.composed import Condition
from steelyard.crossplane import structs
from steelyard.crossplane.composing import Answer, Asked, Result
from steelyard.crossplane.inputs import Input, Inputs
from steelyard.crossplane.selecting import Selector

_STATUS: Final = {
    "True": fn.STATUS_CONDITION_TRUE,
    "False": fn.STATUS_CONDITION_FALSE,
    "Unknown": fn.STATUS_CONDITION_UNKNOWN,
}
_SEVERITY: Final = {"fatal": fn.SEVERITY_FATAL, "warning": fn.SEVERITY_WARNING}


def asked(request: fn.RunFunctionRequest, now: str) -> Asked:
    observed = request.observed
    # Crossplane fills in the one that it was answered with; both are read, whoever asks.
    required = {
        name: [structs.read(each.resource) for each in found.items]
        for field in (request.extra_resources, request.required_resources)
        for name, found in field.items()
    }
    details = observed.composite.connection_details
    return Asked(
        composite=structs.read(observed.composite.resource),
        observed={name: structs.read(each.resource) for name, each in observed.resources.items()},
        details={key: base64.b64encode(value).decode() for key, value in details.items()},
        required=required,
        now=now,
    )


def read_input(request: fn.RunFunctionRequest, inputs: Inputs) -> Input:
    """What the Composition says to the function. Raises `Refused`."""
    encoded = request.input.SerializeToString(deterministic=True) if request.HasField("input") else b""
    return inputs.read(encoded, lambda: structs.read(request.input) if encoded else {})


def response(
    request: fn.RunFunctionRequest, answer: Answer, *, extra_resources: bool = False
) -> fn.RunFunctionResponse:
    """With `extra_resources`, what is to be looked up is asked for as Crossplane before v2 understands it."""
    made = fn.RunFunctionResponse()
    made.meta.tag = request.meta.tag
    made.desired.CopyFrom(request.desired)
    if request.HasField("context"):
        made.context.CopyFrom(request.context)
    if answer.look_again:
        made.meta.ttl.FromMilliseconds(math.ceil(answer.look_again * 1000))
    for name, selector in answer.selectors.items():
        field = made.requirements.extra_resources if extra_resources else made.requirements.resources
        _select(field[name], selector)
    for result in answer.results:
        _tell(made, result)
    if answer.is_fatal:
        return made
    for name, given in answer.resources.items():
        resource = made.desired.resources[name]
        # Of a function before this one there may be a resource of this name; it is ours.
        resource.Clear()
        structs.write(resource.resource, given.object)
        resource.ready = fn.READY_TRUE if given.ready else fn.READY_FALSE
    composite = made.desired.composite
    # Earlier functions may have said something of the status; what is said here comes on top of it.
    status = composite.resource.fields["status"].struct_value
    structs.write(status, answer.status)
    composite.ready = fn.READY_TRUE if answer.ready else fn.READY_FALSE
    for key, value in decoded(answer.details).items():
        composite.connection_details[key] = value
    for condition in answer.conditions:
        _report(made, condition)
    return made


def decoded(details: Mapping[str, str]) -> dict[str, bytes]:
    """Without what is no base64: whoever wrote it cannot have meant it."""
    found: dict[str, bytes] = {}
    for key, value in details.items():
        try:
            found[key] = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            continue
    return found


def _select(target: fn.ResourceSelector, selector: Selector) -> None:
    target.api_version, target.kind = selector.api_version, selector.kind
    if selector.name:
        target.match_name = selector.name
    else:
        target.match_labels.labels.update(selector.labels)
    if selector.namespace:
        target.namespace = selector.namespace


def _tell(made: fn.RunFunctionResponse, result: Result) -> None:
    made.results.add(
        severity=_SEVERITY[result.severity],
        message=result.message,
        reason=result.reason,
        target=fn.TARGET_COMPOSITE_AND_CLAIM,
    )


def _report(made: fn.RunFunctionResponse, condition: Condition) -> None:
    made.conditions.add(
        type=condition.type,
        status=_STATUS[condition.status],
        reason=condition.reason,
        message=condition.message,
        target=fn.TARGET_COMPOSITE_AND_CLAIM,
    )
