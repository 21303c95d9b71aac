"""What upstream's controllers report about a CustomResourceDefinition: its accepted names and its conditions.

Each function gives the next status of a definition and changes nothing. The order is upstream's: names are accepted,
or the first name that another definition of the group holds is told; then the definition is established. A deletion is
announced with the finalizer that holds the definition until its objects are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

from steelyard.kube import fields, objects
from steelyard.kube.objects import Object

FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
APPROVAL: Final = "api-approved.kubernetes.io"
"""The annotation that says where a definition in a group of the Kubernetes project was approved."""
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
Approval = Literal["", "Missing", "Unapproved", "Approved", "Invalid"]


def is_condition_true(crd: Object, type_: str) -> bool:
    conditions = map(objects.mapping, objects.sequence(objects.at(crd, "status", "conditions")))
    return any(each.get("type") == type_ and each.get("status") == "True" for each in conditions)


def is_accepted(crd: Object) -> bool:
    """Whether its kind is served."""
    return is_condition_true(crd, "NamesAccepted") or is_condition_true(crd, "Established")


def is_settled(crd: Object) -> bool:
    """Whether it has the names it asks for, is established and judged: there is nothing left to report."""
    wanted, accepted = objects.at(crd, "spec", "names"), objects.at(crd, "status", "acceptedNames")
    is_named = _given(wanted) == _given(accepted) and is_condition_true(crd, "Established")
    return is_named and judged_by_policy(crd, "") == objects.mapping(crd.get("status"))


def _given(names: Any) -> Object:
    return {key: value for key, value in objects.mapping(names).items() if value}


def approval(crd: Object) -> tuple[Approval, str]:
    """Whether a definition of a protected group is approved, and the words for it; empty for other groups."""
    if not f".{objects.at(crd, 'spec', 'group') or ''}".endswith((".k8s.io", ".kubernetes.io")):
        return "", ""
    value = objects.annotations(crd).get(APPROVAL, "")
    needed = f"protected groups must have approval annotation {fields.quote(APPROVAL)}"
    if not value:
        return "Missing", f"{needed}, {_SEE}"
    if value.startswith("unapproved"):
        return "Unapproved", f"not approved: {fields.quote(value)}"
    parts = urlsplit(value)
    if parts.scheme and parts.netloc:
        return "Approved", f"approved in {value}"
    return "Invalid", f'{needed} with either a URL or a reason starting with "unapproved", {_SEE}'


def judged_by_policy(crd: Object, now: str) -> Object:
    """The status that tells whether a definition of a protected group is approved."""
    status = objects.mapping(crd.get("status"))
    state, text = approval(crd)
    if state:
        status = objects.copy(status)
        value = "True" if state == "Approved" else "False"
        _set_condition(status, "KubernetesAPIApprovalPolicyConformant", value, f"{state}Annotation", text, now)
    return status


def accept_names(crd: Object, others: Iterable[Object], now: str) -> Object:
    """The status after taking the definition's names among all others.

    When another definition of the group is deleted or changes its names, ask again.
    """
    spec_names = objects.mapping(objects.at(crd, "spec", "names"))
    status = objects.copy(objects.mapping(crd.get("status")))
    resources_taken, kinds_taken = _taken(objects.at(crd, "spec", "group"), others)
    accepted = objects.mapping(status.get("acceptedNames"))
    conflict = ("", "")
    for key, taken, reason in (
        ("plural", resources_taken, "PluralConflict"),
        ("singular", resources_taken, "SingularConflict"),
        ("shortNames", resources_taken, "ShortNamesConflict"),
        ("kind", kinds_taken, "KindConflict"),
        ("listKind", kinds_taken, "ListKindConflict"),
    ):
        wanted = spec_names.get(key)
        used = _in_use(wanted, accepted.get(key), taken)
        if used:
            conflict = (reason, _listed(used))
        elif wanted:
            accepted[key] = wanted
        else:
            accepted.pop(key, None)
    if spec_names.get("categories"):
        accepted["categories"] = spec_names["categories"]
    else:
        accepted.pop("categories", None)
    status["acceptedNames"] = {"plural": "", "kind": "", **accepted}
    if conflict[0]:
        _set_condition(status, "NamesAccepted", "False", *conflict, now)
        if _condition(status, "Established") is None:
            _set_condition(status, "Established", "False", "NotAccepted", "not all names are accepted", now)
    else:
        _set_condition(status, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
        established = _condition(status, "Established")
        if established is None or established.get("status") != "True":
            text = "the initial names have been accepted"
            _set_condition(status, "Established", "False", "Installing", text, now)
    return status


def established(crd: Object, now: str) -> Object:
    """The status once the accepted names are served."""
    status = objects.mapping(crd.get("status"))
    if not is_condition_true(crd, "NamesAccepted") or is_condition_true(crd, "Established"):
        return status
    status = objects.copy(status)
    text = "the initial names have been accepted"
    _set_condition(status, "Established", "True", "InitialNamesAccepted", text, now)
    return status


def marked_for_deletion(crd: Object, now: str) -> Object:
    """The definition as its first deletion leaves it. Its generation and its managers stay as they are."""
    metadata: Object = {**objects.metadata(crd), "deletionTimestamp": now}
    if FINALIZER not in objects.finalizers(crd):
        metadata["finalizers"] = [*objects.finalizers(crd), FINALIZER]
    status = objects.copy(objects.mapping(crd.get("status")))
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    _set_condition(status, "Terminating", "True", "InstanceDeletionPending", text, now)
    return {**crd, "metadata": metadata, "status": status}


def deletion_in_progress(crd: Object, now: str) -> Object:
    """The status while its objects are being deleted."""
    status = objects.copy(objects.mapping(crd.get("status")))
    text = "CustomResource deletion is in progress"
    _set_condition(status, "Terminating", "True", "InstanceDeletionInProgress", text, now)
    return status


def _taken(group: Any, others: Iterable[Object]) -> tuple[set[str], set[str]]:
    resources_taken: set[str] = set()
    kinds_taken: set[str] = set()
    for other in others:
        if objects.at(other, "spec", "group") != group:
            continue
        accepted = objects.mapping(objects.at(other, "status", "acceptedNames"))
        resources_taken.update(map(str, (accepted.get("plural"), accepted.get("singular"))))
        resources_taken.update(map(str, objects.sequence(accepted.get("shortNames"))))
        kinds_taken.update(map(str, (accepted.get("kind"), accepted.get("listKind"))))
    return resources_taken, kinds_taken


def _in_use(wanted: Any, accepted: Any, taken: set[str]) -> list[str]:
    listed = cast("list[str]", wanted if isinstance(wanted, list) else [wanted] if wanted else [])
    ours = cast("list[str]", accepted if isinstance(accepted, list) else [accepted])
    return [name for name in listed if name not in ours and name in taken]


def _listed(used: Sequence[str]) -> str:
    texts = [f"{fields.quote(name)} is already in use" for name in used]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _condition(status: Object, type_: str) -> Object | None:
    conditions = cast("list[Object]", objects.sequence(status.get("conditions")))
    return next((condition for condition in conditions if condition.get("type") == type_), None)


def _set_condition(status: Object, type_: str, value: str, reason: str, message: str, now: str) -> None:
    found = _condition(status, type_)
    if found is None:
        found = {"type": type_}
        status["conditions"] = [*objects.sequence(status.get("conditions")), found]
    since = found.get("lastTransitionTime") if found.get("status") == value else None
    found.update(status=value, lastTransitionTime=since or now, reason=reason, message=message)
