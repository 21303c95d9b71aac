"""CertificateSigningRequest: who asks for a certificate is the server's word, and stays it.

A signer believes what `spec` says of the requester, so nothing of that comes from the client: it is put in when the
request is created and nothing of the spec changes afterwards. To approve and to sign are rights of their own, each
with the name of the signer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from steelyard.kube import errors, fields, namerules, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.call import SYSTEM_MASTERS, Call, User
from steelyard.kube.server.rights.authz import Attributes, Authorizer
from steelyard.kube.server.strategies import signingrequests
from steelyard.kube.server.strategies.base import Around, Strategy, spec

GROUP: Final = "certificates.k8s.io"
_PLURAL: Final = "certificatesigningrequests"
_REQUESTER: Final = ("username", "uid", "groups", "extra")
_LEGACY_SIGNER: Final = "kubernetes.io/legacy-unknown"
_CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"
_APPROVED, _DENIED, _FAILED = "Approved", "Denied", "Failed"
_DECISIONS: Final = (_APPROVED, _DENIED)
_SHORTEST: Final = 600
_LONGEST_DOMAIN: Final = 253
_LONGEST_SIGNER: Final = 571
_USAGES: Final = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip


class SigningRequestStrategy(Strategy):
    is_judged_by_schema = False
    involves_caller = True
    keeps_spec = True

    def prepare_create(self, obj: Object) -> None:
        for field in _REQUESTER:
            spec(obj).pop(field, None)

    def prepare_update(self, obj: Object, old: Object) -> None:
        obj["spec"] = old["spec"]

    def prepare_part(self, obj: Object, old: Object, subresource: str) -> None:
        """A signer leaves the decision as it is, and who decides leaves the certificate."""
        given = _conditions(obj)
        if subresource == "approval":
            status = {key: value for key, value in objects.mapping(old.get("status")).items() if key != "conditions"}
            obj["status"] = {**status, "conditions": given} if given else status
            return
        for type_ in _DECISIONS:
            before = [condition for condition in _conditions(old) if condition.get("type") == type_]
            places = [place for place, condition in enumerate(given) if condition.get("type") == type_]
            if len(before) == len(places):
                for place, condition in zip(places, before, strict=True):
                    given[place] = condition
        if given:
            obj["status"] = {**objects.mapping(obj.get("status")), "conditions": given}

    def involve(self, obj: Object, old: Object | None, call: Call, around: Around) -> None:
        if old is None:
            obj["spec"] = {**obj["spec"], **_requester(call.user)}
            _check_subject(obj, call)
            return
        if call.subresource and obj is not old:
            _fill_times(obj, old, around.timestamp())
        signer = str(objects.at(old, "spec", "signerName") or "")
        if call.subresource == "approval":
            _check_signer(call, around.authorizer, "approve", signer)
        elif call.subresource == "status" and _signed(obj) != _signed(old):
            _check_signer(call, around.authorizer, "sign", signer)

    def validate_create(self, obj: Object) -> list[Cause]:
        return list(_judge(obj, None))

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return list(_judge_change(obj, old, ""))

    def validate_part(self, obj: Object, old: Object, subresource: str) -> list[Cause]:
        return list(_judge_change(obj, old, subresource))


def _requester(user: User) -> Object:
    said: Object = {"username": user.name}
    if user.uid:
        said["uid"] = user.uid
    if user.groups:
        said["groups"] = list(user.groups)
    if user.extra:
        said["extra"] = {key: list(values) for key, values in user.extra.items()}
    return said


def _check_subject(obj: Object, call: Call) -> None:
    """Nobody becomes an administrator by way of a certificate."""
    given = objects.mapping(obj.get("spec"))
    if given.get("signerName") != _CLIENT_SIGNER:
        return
    if SYSTEM_MASTERS in signingrequests.organisations(signingrequests.decoded(given.get("request"))):
        text = f"use of {_CLIENT_SIGNER} signer with {SYSTEM_MASTERS} group is not allowed"
        raise errors.forbidden(f"{_PLURAL}.{GROUP}", objects.name(obj) or call.name, text)


def _check_signer(call: Call, authorizer: Authorizer, verb: str, signer: str) -> None:
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        if authorizer.decide(Attributes(call.user, verb, group=GROUP, plural="signers", name=name)).allowed:
            return
    text = f"user not permitted to {verb} requests with signerName {fields.quote(signer)}"
    raise errors.forbidden(f"{_PLURAL}.{GROUP}", call.name, text)


def _signed(obj: Object) -> tuple[Any, list[Object]]:
    return objects.at(obj, "status", "certificate") or None, _conditions(obj)


def _fill_times(obj: Object, old: Object, now: str) -> None:
    """A condition is given its times where it came without."""
    filled: list[Object] = []
    for condition in _conditions(obj):
        since = next(
            (
                before["lastTransitionTime"]
                for before in _conditions(old)
                if before.get("lastTransitionTime")
                and (before.get("type"), before.get("status")) == (condition.get("type"), condition.get("status"))
            ),
            now,
        )
        filled.append({
            **condition,
            "lastUpdateTime": condition.get("lastUpdateTime") or now,
            "lastTransitionTime": condition.get("lastTransitionTime") or since,
        })  # fmt: skip
    if filled:
        obj["status"] = {**objects.mapping(obj.get("status")), "conditions": filled}


def _judge(obj: Object, old: Object | None) -> Iterable[Cause]:
    given = objects.mapping(obj.get("spec"))
    request = signingrequests.decoded(given.get("request"))
    if problem := signingrequests.problem(request):
        yield fields.invalid("spec.request", given.get("request"), problem)
    usages = [str(usage) for usage in objects.sequence(given.get("usages"))]
    if not usages:
        yield fields.required("spec.usages")
    for index, usage in enumerate(usages):
        if usage not in _USAGES:
            yield fields.not_supported(f"spec.usages[{index}]", usage, _USAGES)
    for index, usage in enumerate(usages):
        if usage in usages[:index]:
            yield fields.duplicate(f"spec.usages[{index}]", usage)
    signer = str(given.get("signerName") or "")
    if signer == _LEGACY_SIGNER:
        yield fields.invalid("spec.signerName", signer, "the legacy signerName is not allowed via this API version")
    else:
        yield from _signer_name(signer, "spec.signerName")
    seconds = given.get("expirationSeconds")
    if isinstance(seconds, int) and seconds < _SHORTEST:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        yield fields.invalid("spec.expirationSeconds", seconds, text)
    yield from _judge_conditions(_conditions(obj))
    certificate = objects.at(obj, "status", "certificate") or ""
    is_new = old is None or certificate != (objects.at(old, "status", "certificate") or "")
    if is_new and (problem := signingrequests.certificate_problem(signingrequests.decoded(certificate))):
        yield fields.invalid("status.certificate", "<certificate data>", problem)


def _judge_conditions(conditions: list[Object]) -> Iterable[Cause]:
    place = "status.conditions"
    seen: list[str] = []
    for index, condition in enumerate(conditions):
        type_, status = str(condition.get("type") or ""), str(condition.get("status") or "")
        if not type_:
            yield fields.required(f"{place}[{index}].type")
        accepted = ("True",) if type_ in (_APPROVED, _DENIED, _FAILED) else ("False", "True", "Unknown")
        if not status:
            yield fields.required(f"{place}[{index}].status")
        elif status not in accepted:
            yield fields.not_supported(f"{place}[{index}].status", status, accepted)
        if type_ in _DECISIONS and any(other in seen for other in _DECISIONS if other != type_):
            yield fields.invalid(place, type_, "Approved and Denied conditions are mutually exclusive")
        if type_ in seen:
            yield fields.duplicate(f"{place}[{index}].type", type_)
        seen.append(type_)


def _judge_change(obj: Object, old: Object, subresource: str) -> Iterable[Cause]:
    yield from _judge(obj, old)
    place = "status.conditions"
    before = Counter(condition.get("type") for condition in _conditions(old))
    after = Counter(condition.get("type") for condition in _conditions(obj))
    for type_ in (_APPROVED, _DENIED, _FAILED):
        if after[type_] < before[type_]:
            yield fields.forbidden(place, f"updates may not remove a condition of type {fields.quote(type_)}")
    for type_ in _DECISIONS if subresource != "approval" else ():
        if after[type_] > before[type_]:
            yield fields.forbidden(place, f"updates may not add a condition of type {fields.quote(type_)}")
    had, has = (objects.at(each, "status", "certificate") or "" for each in (old, obj))
    if had != has and subresource != "status":
        yield fields.forbidden("status.certificate", "updates may not set certificate content")
    elif had and had != has:
        yield fields.forbidden("status.certificate", "updates may not modify existing certificate content")


def _signer_name(name: str, place: str) -> Iterable[Cause]:
    if not name:
        yield fields.required(place)
        return
    domain, _, path = name.partition("/")
    if name.count("/") != 1:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield fields.invalid(place, name, text)
        return
    if len(domain) > _LONGEST_DOMAIN:
        yield fields.too_long(place, _LONGEST_DOMAIN)
    yield from _labels(domain, namerules.dns_label, place)
    if "." not in domain:
        yield fields.invalid(place, domain, "should be a domain with at least two segments separated by dots")
    yield from _labels(path, namerules.dns_subdomain, place)
    if len(name) > _LONGEST_SIGNER:
        yield fields.too_long(place, _LONGEST_SIGNER)


def _labels(text: str, rule: namerules.Rule, place: str) -> Iterable[Cause]:
    """What is wrong with the first label that is."""
    for label in text.split("."):
        if wrong := rule(label):
            yield from (fields.invalid(place, text, f"validating label {fields.quote(label)}: {why}") for why in wrong)
            return


def _conditions(obj: Object) -> list[Object]:
    return [objects.mapping(each) for each in objects.sequence(objects.at(obj, "status", "conditions"))]
