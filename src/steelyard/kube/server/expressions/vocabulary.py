"""What expressions of admission speak of: the objects, the request, its namespace, parameters, rights, and variables.

    object, oldObject          as they are to be and as they are; null where there is none
    request, namespaceObject   typed, so that a name which does not exist is refused when the expression is written
    params                     where a policy says what kind it takes them from
    authorizer                 what the caller may do
    variables                  a policy's own, each evaluated when it is first asked for

Importing this costs nothing; the language itself is loaded with the first expression.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from steelyard.frozen import frozen
from steelyard.kube import remembering

if TYPE_CHECKING:
    from steelyard.kube.cel.program import Program
    from steelyard.kube.cel.types import Type

Scope = Mapping[str, Any]
"""The values of the variables, by name."""


@frozen
class Expression:
    """Compiled, or `problem` says why it cannot be."""

    text: str
    program: Program | None
    names: tuple[str, ...]
    """The variables in the order in which the program takes them."""
    problem: str = ""

    @property
    def type(self) -> Type:
        from steelyard.kube.cel import types

        return self.program.type if self.program is not None else types.DYN

    def arguments(self, scope: Scope) -> list[Any]:
        return [scope.get(name) for name in self.names]


def read(text: str, *, params: bool, rights: bool, variables: Mapping[str, Type] | None = None) -> Expression:
    """Never raises. `variables` are the types of those that may be used, None where there is no such thing."""
    if variables is None:
        return _read(text, params, rights)
    from steelyard.kube.cel import types

    known = {name: types.Field(name, type_) for name, type_ in variables.items()}
    return _compiled(text, params, rights, types.Type("object", name="kubernetes.variables", fields=known))


@remembering.briefly(1024, 4096)
def _read(text: str, params: bool, rights: bool) -> Expression:
    return _compiled(text, params, rights, None)


def _compiled(text: str, params: bool, rights: bool, variables: Type | None) -> Expression:
    from steelyard.kube.cel import program, types
    from steelyard.kube.cel.problems import CompileError

    declared = {"object": types.DYN, "oldObject": types.DYN, "request": _request(), "namespaceObject": _namespace()}
    if params:
        declared["params"] = types.DYN
    if rights:
        declared["authorizer"] = types.AUTHORIZER
    if variables is not None:
        declared["variables"] = variables
    names = tuple(declared)
    try:
        return Expression(text, program.compile_(text, declared), names)
    except CompileError as error:
        return Expression(text, None, names, f"compilation failed: {error}")


def _of(title: str, /, **given: Type) -> Type:
    from steelyard.kube.cel import types

    known = {key: types.Field(key, type_) for key, type_ in given.items()}
    return types.Type("object", name=f"kubernetes.{title}", fields=known)


@functools.cache
def _request() -> Type:
    from steelyard.kube.cel import types

    text = types.STRING
    kind = _of("GroupVersionKind", group=text, version=text, kind=text)
    resource = _of("GroupVersionResource", group=text, version=text, resource=text)
    extra = types.map_of(text, types.list_of(text))
    user = _of("UserInfo", username=text, uid=text, groups=types.list_of(text), extra=extra)
    return _of(
        "AdmissionRequest",
        kind=kind,
        resource=resource,
        subResource=text,
        requestKind=kind,
        requestResource=resource,
        requestSubResource=text,
        name=text,
        namespace=text,
        operation=text,
        userInfo=user,
        dryRun=types.BOOL,
        options=types.DYN,
    )


@functools.cache
def _namespace() -> Type:
    """What upstream shows of a namespace. `UID` is its spelling, under which no namespace has anything; and what it
    calls a time is a text, of which no function for times can make anything."""
    from steelyard.kube.cel import types

    text, number, moment = types.STRING, types.INT, types.TIMESTAMP
    texts = types.map_of(text, text)
    metadata = _of(
        "NamespaceMetadata",
        name=text,
        generateName=text,
        namespace=text,
        labels=texts,
        annotations=texts,
        UID=text,
        creationTimestamp=moment,
        deletionGracePeriodSeconds=number,
        deletionTimestamp=moment,
        generation=number,
        resourceVersion=text,
        finalizers=types.list_of(text),
    )
    condition = _of("NamespaceCondition", status=text, type=text, lastTransitionTime=moment, message=text, reason=text)
    status = _of("NamespaceStatus", conditions=types.list_of(condition), phase=text)
    return _of("Namespace", metadata=metadata, spec=_of("NamespaceSpec", finalizers=types.list_of(text)), status=status)
