"""Everything about access that one server has: its policy, its service accounts, and the guard of its writes.

A server whose access nobody uses stores nothing for it. It becomes active, which writes the default roles, bindings
and accounts in one commit, when it is told to or when a request first concerns them; until then decisions are made by
the defaults that it would write. Nobody can tell the difference, and hundreds of simulated clusters cost nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Final

from steelyard.kube import errors, objects, pki
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, Resource
from steelyard.kube.server.access import accounts, defaults, escalation
from steelyard.kube.server.access.accounts import SERVICE_ACCOUNTS, DefaultAccounts
from steelyard.kube.server.access.aggregation import Aggregation
from steelyard.kube.server.access.rbac import Rbac
from steelyard.kube.server.bodies.documents import Document
from steelyard.kube.server.call import SYSTEM_MASTERS, Call, Reply, User
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.core import Core, unavailable
from steelyard.kube.server.rights import accounttokens, authn, authz, rules
from steelyard.kube.server.rights.accounttokens import InvalidToken, Signer
from steelyard.kube.server.rights.authn import TokensAndCertificates
from steelyard.kube.server.rights.authz import Attributes
from steelyard.kube.server.rights.policy import GROUP
from steelyard.kube.store.errors import StoreError
from steelyard.kube.store.record import Record

CONCERNED: Final = frozenset((*defaults.RESOURCES, SERVICE_ACCOUNTS.plural))
"""The plurals of what is written when it is first asked for."""
_JSON: Final = "application/json"
_JWKS: Final = "application/jwk-set+json"


class Access:
    """The server's authenticator too: static tokens, client certificates, and tokens of service accounts."""

    __slots__ = ("_activation", "_core", "_default_accounts", "_known", "address", "rbac", "signer")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._activation: asyncio.Future[None] | None = None
        self._default_accounts = DefaultAccounts(core)
        self._known = TokensAndCertificates()
        self.rbac = Rbac(core.store, core.space)
        self.signer = Signer(pki.new_private_key)
        """Replace it where tokens are to outlive the process."""
        self.address = ""
        """Where the server is reached, for those who look for its keys."""

    @property
    def concerns(self) -> tuple[Aggregation, DefaultAccounts]:
        return Aggregation(self._core), self._default_accounts

    def know(self, known: TokensAndCertificates) -> None:
        """Whom else to recognise, besides service accounts."""
        self._known = known

    async def prepare(self, call: Call) -> None:
        """Before a request that shows or changes roles or service accounts: they are all there."""
        if call.group == GROUP or (call.plural == SERVICE_ACCOUNTS.plural and not call.group):
            await self.activate()

    @property
    def is_active(self) -> bool:
        return self._activation is not None and self._activation.done()

    async def activate(self, *, are_laid: bool = False) -> None:
        """Writes what is missing of the defaults, and follows what is stored from now on. `are_laid`: all of them are
        stored, and as they should be.
        """
        if self._activation is None:
            self._activation = asyncio.ensure_future(self._activate(are_laid=are_laid))
        try:
            await asyncio.shield(self._activation)
        except errors.ApiError:
            self._activation = None
            raise

    async def activate_if_used(self) -> None:
        """At a start: a server that stored roles or accounts before goes on from them."""
        if self.rbac.has_stored or self._core.store.scan(self._core.prefix(SERVICE_ACCOUNTS), limit=1):
            await self.activate()

    async def _activate(self, *, are_laid: bool) -> None:
        """Everything is queued in one go, which the store makes one commit of."""
        core = self._core
        writes: list[Awaitable[object]] = [] if are_laid else self._missing()
        self._default_accounts.is_active = True
        for namespace in core.store.scan(core.prefix(NAMESPACES)):
            self._default_accounts.process(objects.name(namespace.object))
            writes.append(core.store.settled(self._key(SERVICE_ACCOUNTS, _default_in(namespace))))
        try:
            await asyncio.gather(*writes)
        except StoreError as error:
            raise unavailable(error) from error
        self.rbac.follow()

    def _missing(self) -> list[Awaitable[object]]:
        """The writes of what is missing of the default roles and bindings."""
        core = self._core
        writes: list[Awaitable[object]] = []
        timestamp = core.timestamp()
        is_complete = True
        for resource, default in defaults.wanted():
            record = core.store.head(self._key(resource, default))
            if record is None:
                is_complete = False
            elif (changed := defaults.reconciled(record.object, default)) is not record.object:
                writes.append(core.put(record.key, objects.copy(changed), expect=record.revision))
        for resource, default in defaults.complete() if not is_complete else ():
            key = self._key(resource, default)
            has_place = not resource.namespaced or core.namespace(objects.namespace(default)) is not None
            if has_place and core.store.head(key) is None:
                writes.append(core.put(key, defaults.fresh(default, timestamp), expect=0))
        return writes

    def _key(self, resource: Resource, obj: Object) -> str:
        return self._core.key(resource, objects.namespace(obj), objects.name(obj))

    def check_write(self, served: Served, call: Call, obj: Object, old: Object | None) -> None:
        """What a write needs beyond its own verb. Raises Forbidden."""
        if SYSTEM_MASTERS in call.user.groups:
            return
        if old is None and call.verb != "create":
            resource = served.resource
            asked = Attributes(
                call.user, "create", group=resource.group, plural=resource.plural, namespace=call.namespace,
                name=call.name,
            )  # fmt: skip
            authz.require(self.rbac, asked)
        if served.resource.group == GROUP:
            escalation.check(self.rbac, call, obj, old)

    async def request_token(self, served: Served, call: Call) -> Reply:
        return await accounts.request_token(self._core, self.signer, served, call)

    def certificate(self, der: bytes) -> tuple[User | None, float]:
        return self._known.certificate(der)

    def token(self, token: str) -> User:
        try:
            user, _ = self.review(token, ())
        except InvalidToken:
            raise authn.unauthorized() from None
        return user

    def review(self, token: str, audiences: Iterable[str]) -> tuple[User, tuple[str, ...]]:
        """The user of a token, and those of the audiences (by default the server's own) that it is meant for.

        Raises InvalidToken.
        """
        wanted = tuple(audiences) or (self.signer.issuer,)
        if not self.signer.looks_like_ours(token):
            try:
                user = self._known.token(token)
            except errors.Unauthorized:
                raise InvalidToken from None
            if self.signer.issuer not in wanted:
                raise InvalidToken
            meant = (self.signer.issuer,)
        else:
            user, meant = accounts.user_of(self._core, self.signer, token)
        common = tuple(audience for audience in wanted if audience in meant)
        if not common:
            shown, asked = rules.go_list(meant), rules.go_list(wanted)
            raise InvalidToken(f"token audiences {shown} is invalid for the target audiences {asked}")
        return user, common

    def document(self, path: str, accept: str) -> Document | None:
        """How others verify the server's tokens; None for any other path. Raises NotAcceptable."""
        match path:
            case accounttokens.CONFIGURATION_PATH:
                _check_accepted(accept, _JSON)
                return Document(self.signer.configuration(self.address), _JSON)
            case accounttokens.KEYS_PATH:
                _check_accepted(accept, _JWKS)
                return Document(self.signer.key_set(), _JWKS)
            case _:
                return None

    def close(self) -> None:
        self.rbac.close()


def _check_accepted(accept: str, offered: str) -> None:
    accepted = [each.partition(";")[0].strip() for each in accept.split(",")] if accept else ["*/*"]
    if offered not in accepted and "*/*" not in accepted:
        raise errors.NoSuchForm(f"406: Not Acceptable\n\nAvailable representations: {offered}")


def _default_in(namespace: Record) -> Object:
    return {"metadata": {"name": accounts.DEFAULT, "namespace": objects.name(namespace.object)}}
