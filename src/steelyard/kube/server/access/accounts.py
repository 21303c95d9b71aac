"""Service accounts: the one called `default` in every namespace, tokens for any of them, and who a token stands for."""

from __future__ import annotations

import datetime
import functools
import uuid
from collections.abc import Iterable
from typing import Any, Final

from steelyard.kube import ages, errors, fields, objects
from steelyard.kube.builtin import tables
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, NODES, SECRETS, Resource
from steelyard.kube.server.admission import passage
from steelyard.kube.server.bodies import bodies
from steelyard.kube.server.bodies import options as parameters
from steelyard.kube.server.call import AUTHENTICATED, Call, Reply, User
from steelyard.kube.server.candidates import candidates, completing
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.core import Core
from steelyard.kube.server.rights.accounttokens import Contents, InvalidToken, Signer
from steelyard.kube.server.rights.policy import service_account
from steelyard.kube.server.space.background import Work
from steelyard.kube.store.record import Change, Record

SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount")
PODS: Final = Resource("", "v1", "pods", "Pod")
DEFAULT: Final = "default"
_KIND: Final = "TokenRequest"
_GROUP: Final = "authentication.k8s.io"
_REQUESTS: Final = Resource(_GROUP, "v1", "tokenrequests", _KIND)
_HOUR: Final = 3600
_SHORTEST: Final = 600
_LONGEST: Final = 1 << 32
_BINDABLE: Final = {"Pod": PODS, "Secret": SECRETS, "Node": NODES}
_RESOURCES: Final = {kind.lower(): resource for kind, resource in _BINDABLE.items()}
_EXTRA: Final = "authentication.kubernetes.io/"
_OTHER_NAMESPACE: Final = "the namespace of the provided object does not match the namespace sent on the request"


class DefaultAccounts(Work):
    """Sees to it that every namespace has its default account, once `is_active`."""

    def __init__(self, core: Core) -> None:
        super().__init__()
        self._core = core
        self._namespaces = core.prefix(NAMESPACES)
        self._accounts = core.prefix(SERVICE_ACCOUNTS)
        self.is_active = False

    def load(self, records: Iterable[Record]) -> None:
        for record in self._core.store.scan(self._namespaces) if self.is_active else ():
            self.enqueue(objects.name(record.object))

    def observe(self, change: Change) -> None:
        if not self.is_active:
            return
        if change.key.startswith(self._namespaces):
            if change.record is not None and change.previous is None:
                self.enqueue(change.key.removeprefix(self._namespaces))
        elif change.record is None and change.key.startswith(self._accounts) and change.key.endswith(f"/{DEFAULT}"):
            self.enqueue(change.key.removeprefix(self._accounts).removesuffix(f"/{DEFAULT}"))

    def process(self, item: str) -> None:
        namespace = self._core.namespace(item)
        key = f"{self._accounts}{item}/{DEFAULT}"
        if namespace is None or objects.is_being_deleted(namespace) or self._core.store.head(key) is not None:
            return
        metadata: Object = {
            "name": DEFAULT,
            "namespace": item,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": self._core.timestamp(),
        }
        account: Object = {"apiVersion": "v1", "kind": SERVICE_ACCOUNTS.kind, "metadata": metadata}
        self.write(self._core.put(key, account, expect=0), item)


async def request_token(core: Core, signer: Signer, accounts: Served, call: Call) -> Reply:
    """`kubectl create token`: answers a TokenRequest with a signed token."""
    wanted = parameters.write_options(call.options)
    served = _requests()
    bodies.read_object(call, _KIND)
    candidate = candidates.decode(served, call.body, wanted, call.payload)
    with candidates.warned(candidate):
        spec: Object = candidate.obj["spec"]
        if spec["expirationSeconds"] is None:
            spec["expirationSeconds"] = _HOUR
        completing.prepare_new(served, candidate, wanted, core.timestamp(), "token")
        admission = passage.of_write(core, accounts, call, wanted, "CREATE", shape=served)
        if admission is not None:
            await admission.mutate(candidate)
        account, seconds = _checked(core, call, candidate.obj)
        spec = candidate.obj["spec"]
        spec["audiences"] = spec.get("audiences") or [signer.issuer]
        if admission is not None:
            await admission.validate(candidate.obj, candidate)
        candidate.obj["status"] = _signed(core, signer, call, spec, account, seconds)
        return Reply(201, candidate.obj, warnings=candidate.warnings)


def _checked(core: Core, call: Call, request: Object) -> tuple[Object, int]:
    """The account, and for how long the token is to be valid."""
    metadata: Object = request["metadata"]
    if metadata.setdefault("namespace", call.namespace) != call.namespace:
        raise errors.BadRequest(_OTHER_NAMESPACE)
    if metadata.setdefault("name", call.name) != call.name:
        text = "must match the service account name if specified"
        raise _invalid(call.name, fields.invalid("metadata.name", metadata["name"], text))
    account = _existing(core, SERVICE_ACCOUNTS, call.namespace, call.name)
    seconds = _seconds(int(request["spec"]["expirationSeconds"]))
    metadata |= {"uid": objects.uid(account), "creationTimestamp": core.timestamp()}
    return account, seconds


def _signed(core: Core, signer: Signer, call: Call, spec: Object, account: Object, seconds: int) -> Object:
    audiences = [str(each) for each in objects.sequence(spec["audiences"])]
    bound = _bound(core, call, spec.get("boundObjectRef"))
    now = core.now()
    return {
        "token": signer.sign(account, audiences, seconds, now, bound),
        "expirationTimestamp": ages.timestamp(now + datetime.timedelta(seconds=seconds)),
    }


@functools.cache
def _requests() -> Served:
    go_type = tables.type_name(_GROUP, "v1", _KIND)
    return Served(_REQUESTS, tables.schema(_GROUP, "v1", _KIND), go_type=go_type or "")


def _seconds(seconds: int) -> int:
    text = ""
    if seconds < _SHORTEST:
        text = "may not specify a duration less than 10 minutes"
    elif seconds > _LONGEST:
        text = "may not specify a duration larger than 2^32 seconds"
    if text:
        raise _invalid("", fields.invalid("spec.expirationSeconds", seconds, text))
    return seconds


def _bound(core: Core, call: Call, given: Any) -> list[tuple[str, Object]]:
    """The objects that the token names; the first is the one it lives and dies with."""
    if given is None:
        return []
    reference = objects.mapping(given)
    kind, name = str(reference.get("kind") or ""), str(reference.get("name") or "")
    resource = _BINDABLE.get(kind)
    group, _, version = str(reference.get("apiVersion") or "").rpartition("/")
    if resource is None or group:
        raise errors.BadRequest(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    if not name:
        raise errors.BadRequest("Name parameter required.")
    obj = _existing(core, resource, call.namespace, name)
    found = [(kind.lower(), obj)]
    if kind == "Pod":
        if objects.at(obj, "spec", "serviceAccountName") != call.name:
            raise errors.BadRequest(
                f"cannot bind token for serviceaccount {fields.quote(call.name)} to pod running with different "
                "serviceaccount name."
            )
        if node_name := str(objects.at(obj, "spec", "nodeName") or ""):
            node = core.store.get(core.key(NODES, "", node_name))
            found.append(("node", node.object if node is not None else {"metadata": {"name": node_name}}))
    uid = reference.get("uid")
    if uid and uid != objects.uid(obj):
        raise errors.conflict(
            kind,
            name,
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated",
        )
    return found


def _existing(core: Core, resource: Resource, namespace: str, name: str) -> Object:
    record = core.store.get(core.key(resource, namespace, name))
    if record is None:
        raise errors.not_found(resource.group_resource, name)
    return record.object


def _invalid(name: str, cause: errors.Cause) -> errors.Invalid:
    return errors.invalid(_GROUP, _KIND, name, [cause])


def user_of(core: Core, signer: Signer, token: str) -> tuple[User, tuple[str, ...]]:
    """Who a token stands for, and the audiences it was made for. Raises InvalidToken."""
    contents = signer.verify(token, core.now())
    account = core.store.get(core.key(SERVICE_ACCOUNTS, contents.namespace, contents.account))
    if account is None:
        raise InvalidToken(f"serviceaccounts {fields.quote(contents.account)} not found")
    uid = objects.uid(account.object)
    if uid != contents.account_uid:
        raise InvalidToken(f"service account UID ({uid}) does not match claim ({contents.account_uid})")
    if objects.is_being_deleted(account.object):
        raise InvalidToken(f"service account {contents.namespace}/{contents.account} has been deleted")
    _check_bound(core, contents)
    extra: dict[str, tuple[str, ...]] = {}
    if contents.id:
        extra[f"{_EXTRA}credential-id"] = (f"JTI={contents.id}",)
    for kind, name, bound_uid in contents.bound:
        if kind != "secret":
            extra[f"{_EXTRA}{kind}-name"] = (name,)
            if bound_uid:
                extra[f"{_EXTRA}{kind}-uid"] = (bound_uid,)
    groups = (*account_groups(contents.namespace), AUTHENTICATED)
    return User(service_account(contents.namespace, contents.account), groups, uid, extra), contents.audiences


def _check_bound(core: Core, contents: Contents) -> None:
    for kind, name, uid in contents.bound[:1]:
        record = core.store.get(core.key(_RESOURCES[kind], contents.namespace, name))
        if record is None or objects.is_being_deleted(record.object):
            raise InvalidToken("service account token has been invalidated")
        if objects.uid(record.object) != uid:
            raise InvalidToken(f"{kind} UID ({objects.uid(record.object)}) does not match claim ({uid})")


def account_groups(namespace: str) -> tuple[str, ...]:
    return "system:serviceaccounts", f"system:serviceaccounts:{namespace}"
