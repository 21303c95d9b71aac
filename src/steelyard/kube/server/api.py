"""One Kubernetes API server: every call of every transport comes through here, and nobody gets past `authorize`.

An `Api` owns its space of a store and nothing else: no thread, no timer, one task that follows the space's changes.
Hundreds of them share a process. What each serves is in `registry`, each verb in a module of its own.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from steelyard.kube import ages, errors, objects, uids
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from steelyard.kube.server import routing
from steelyard.kube.server.access import access, reviews
from steelyard.kube.server.access.access import Access
from steelyard.kube.server.bodies.documents import Document
from steelyard.kube.server.call import Call, Reply, User
from steelyard.kube.server.catalogue import configurations
from steelyard.kube.server.catalogue.discovery import Discovery
from steelyard.kube.server.catalogue.registry import Registry, Served
from steelyard.kube.server.core import Core, Stamp, unavailable
from steelyard.kube.server.housekeeping import expiry, ownservice
from steelyard.kube.server.housekeeping.crds import Definitions
from steelyard.kube.server.housekeeping.expiry import Expiry
from steelyard.kube.server.housekeeping.garbage import Garbage
from steelyard.kube.server.housekeeping.namespaces import SYSTEM, Namespaces
from steelyard.kube.server.housekeeping.ownservice import OwnService
from steelyard.kube.server.openapi import openapi
from steelyard.kube.server.openapi.openapi import OpenApi
from steelyard.kube.server.rights import accounttokens, authz
from steelyard.kube.server.space import keys
from steelyard.kube.server.space.background import Background
from steelyard.kube.server.space.premade import Premade
from steelyard.kube.server.space.quota import Quota
from steelyard.kube.server.verbs import deleting, eviction, reading, subresources, writing
from steelyard.kube.server.verbs.watching import WatchStream
from steelyard.kube.server.webhooks import reach as reaches
from steelyard.kube.server.webhooks.reach import Reach
from steelyard.kube.store.errors import StoreError
from steelyard.kube.store.store import Store

_WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_ACROSS_NAMESPACES: Final = frozenset({"list", "watch"})
_OF_COLLECTIONS: Final = _ACROSS_NAMESPACES | {"create", "deletecollection"}
_OF_OBJECTS: Final = frozenset({"get", "update", "patch", "delete"})
_ON_NAMES: Final = frozenset({"update", "patch"})
_MADE_WHEN_ASKED_FOR: Final = ownservice.CONCERNED | access.CONCERNED
_SERVER: Final = User("system:apiserver", ("system:masters",))


class Api:
    """Make one with `await Api.start(store)`; end it with `await api.close()`, which leaves the store open."""

    __slots__ = (
        "_background", "_core", "_definitions", "_is_complete", "_openapi", "access", "discovery", "name",
        "own_service",
    )  # fmt: skip

    def __init__(self, core: Core, name: str, event_ttl: timedelta) -> None:
        self.name = name
        self._core = core
        self.access = Access(core)
        """Whom the server knows and what they may do."""
        core.authorizer = self.access.rbac
        core.guard = self.access.check_write
        self._definitions = Definitions(core)
        self._definitions.load(())
        self.own_service = OwnService(core)
        self._is_complete = False
        """Everything that is made when it is first asked for has been made."""
        concerns = (
            *(self._definitions, core.webhooks, Namespaces(core), Garbage(core), Expiry(core, event_ttl)),
            *(*self.access.concerns, self.own_service),
        )
        self._background = Background(core.store, f"{core.space}/", concerns)
        self.discovery = Discovery(core.registry)
        self._openapi = OpenApi(core.registry)

    @staticmethod
    async def start(
        store: Store,
        *,
        space: str = "main",
        name: str = "steelyard",
        now: Callable[[], datetime] = ages.utcnow,
        event_ttl: timedelta = expiry.TTL,
        reach: Reach = reaches.ANYWHERE,
        quota: int = 0,
        service_networks: str = "",
    ) -> Api:
        """Serves what the space holds; a new space gets its system namespaces first.

        `event_ttl` after it was last written, an event is deleted. `reach` is where its webhooks may be, `quota` how
        many bytes its objects may have together (0 is no limit), `service_networks` what its services get addresses
        from, as kubeadm writes it.
        """
        core = Core(store, space, Registry(), now, reach)
        core.service_range = ownservice.service_range(service_networks) or core.service_range
        if quota:
            core.quota = Quota(store, space, quota)
        api = Api(core, name, event_ttl)
        missing = [each for each in SYSTEM if api._core.namespace(each) is None]
        await asyncio.gather(*(api._create_namespace(each) for each in missing))
        await api.access.activate_if_used()
        return api

    async def _create_namespace(self, name: str) -> None:
        body: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.call(Call("create", "", "v1", NAMESPACES.plural, _SERVER, body=body))

    async def lay(self, premade: Sequence[Premade]) -> bool:
        """Whether these objects are stored as they were made ahead: then nobody has changed one. Where there is nothing
        of their kinds yet, they are stored first, in one commit. For whoever starts the server: nobody is asked whether
        they may be, and when this returns, kinds are served and policies in force."""
        core = self._core
        places = [(f"{core.space}/{each.place}", each) for each in premade]
        if any(core.store.scan(each) for each in {keys.collection_of(key) for key, _ in places}):
            found = [(core.store.head(key), each) for key, each in places]
            return all(record is not None and each.is_what(record.value) for record, each in found)
        moment = core.timestamp()
        made = [functools.partial(each.filled, uids.new(), moment) for each in premade]
        writes = [core.store.put(key, make, expect=0) for (key, _), make in zip(places, made, strict=True)]
        try:
            await asyncio.gather(*writes)
        except StoreError as error:
            raise unavailable(error) from error
        self._definitions.load(())
        core.webhooks.load(())
        return True

    def stamp(self, stamps: Mapping[tuple[str, str], Stamp]) -> None:
        """What to put into custom resources about who writes them, by group and plural."""
        self._core.stamps = stamps

    def authorize(self, call: Call) -> None:
        """Raises Forbidden. A transport that must know before it reads a body asks first; nobody is asked twice."""
        authz.authorize_call(self.access.rbac, call)
        call.is_authorized = True

    def authorize_path(self, user: User, method: str, path: str) -> None:
        """The same for a path that names no resource. Raises Forbidden."""
        authz.authorize_path(self.access.rbac, user, method, path)

    async def call(self, call: Call) -> Reply:
        """Answers every verb but watch. Raises the classes of `kube.errors` and nothing else."""
        if not call.is_authorized:
            self.authorize(call)
        if call.plural in _MADE_WHEN_ASKED_FOR and not self._is_complete:
            await self._prepare(call)
        served = self._found(call)
        if served.deprecation:
            return await self._deprecated(served, call)
        return await self._answer(served, call)

    async def _prepare(self, call: Call) -> None:
        if not self.access.is_active:
            await self.access.prepare(call)
        if not self.own_service.is_active:
            await self.own_service.prepare(call)
        self._is_complete = self.access.is_active and self.own_service.is_active

    async def _deprecated(self, served: Served, call: Call) -> Reply:
        """Every answer about a version that is on its way out says so, refusals as well."""
        try:
            reply = await self._answer(served, call)
        except errors.ApiError as error:
            error.warnings = (served.deprecation, *error.warnings)
            raise
        reply.warnings = (served.deprecation, *reply.warnings)
        return reply

    async def _answer(self, served: Served, call: Call) -> Reply:
        try:
            if call.verb == "get" and not call.subresource and "get" in served.verbs:
                return await reading.get(self._core, served, call)
            if served.custom is not None and call.verb in _WRITES:
                await self._definitions.make_ready(served, call.flow)
            reply = await self._dispatch(served, call)
        except StoreError as error:
            raise unavailable(error) from error
        except (RecursionError, TypeError) as error:
            # A patch can make an object deeper than any body may be; the encoder then gives up with a TypeError.
            if isinstance(error, TypeError) and "ecursion limit" not in str(error):
                raise
            raise errors.BadRequest("the request is nested too deeply") from None
        if served.resource == CUSTOM_RESOURCE_DEFINITIONS and call.verb in _WRITES:
            await self._definitions.settle(call.name or objects.name(objects.mapping(call.body)))
        if served.resource.plural in configurations.KINDS and call.verb in _WRITES:
            self._core.webhooks.load(())
        return reply

    def check(self, call: Call) -> None:
        """Raises what is wrong with a request whatever its body says: nothing is served there, or not so."""
        call.found = (self._core.registry.revision, self._find(call))

    def size(self, call: Call) -> int:
        """Bytes of the object that the call is about, as it is stored; 0 if there is none."""
        served = self._found(call)
        record = self._core.store.head(self._core.key(served.resource, call.namespace, call.name))
        return record.size if record is not None else 0

    def _found(self, call: Call) -> Served:
        found = call.found
        return self._find(call) if found is None or found[0] != self._core.registry.revision else found[1]

    def _find(self, call: Call) -> Served:
        """What the call is about. A right in a namespace must not reach a resource that lives in none, so there is no
        such resource under a namespace; nor is there one object of a namespace outside of all.
        """
        served = self._core.registry.find(call.group, call.version, call.plural)
        if served is None:
            raise _not_served(call)
        if bool(call.namespace) != served.resource.namespaced:
            if call.namespace or call.name:
                raise _not_served(call)
            if served.resource.namespaced and call.verb not in _ACROSS_NAMESPACES:
                raise _refused(served, call) if served.custom is None else _not_served(call)
        if not call.regular:
            self._check_irregular(served, call)
        return served

    def _check_irregular(self, served: Served, call: Call) -> None:
        if served.custom is None:
            if call.subresource and call.subresource not in served.subresources:
                raise _not_served(call)
            raise _refused(served, call)
        if not call.name and call.verb in _ON_NAMES:
            raise errors.BadRequest("name must be provided")

    async def _dispatch(self, served: Served, call: Call) -> Reply:
        core, verb, subresource = self._core, call.verb, call.subresource
        if subresource:
            return await self._subresource(served, call)
        _check_verb(served, call)
        if served.is_review:
            return reviews.answer(served, call, self.access, core.timestamp())
        match verb:
            case "list":
                return await reading.list_(core, served, call)
            case "create":
                return await writing.create(core, served, call)
            case "update":
                return await writing.update(core, served, call)
            case "patch":
                return await writing.patch(core, served, call)
            case "delete":
                return await deleting.delete(core, served, call)
            case "deletecollection":
                return await deleting.delete_collection(core, served, call)
            case _:
                return await reading.get(core, served, call)

    async def _subresource(self, served: Served, call: Call) -> Reply:
        core = self._core
        subresource = served.subresources.get(call.subresource)
        if subresource is None:
            raise _no_subresource(served, call)
        if call.verb not in subresource.verbs:
            raise _not_allowed(served, call.verb)
        match call.subresource, call.verb:
            case "scale", "get":
                return await subresources.get_scale(core, served, call)
            case "scale", "update":
                return await subresources.update_scale(core, served, call)
            case "scale", _:
                return await subresources.patch_scale(core, served, call)
            case "token", _:
                return await self.access.request_token(served, call)
            case "eviction", _:
                return await eviction.evict(core, served, call)
            case _, "get":
                return await reading.get(core, served, call)
            case _, "update":
                return await writing.update(core, served, call)
            case _:
                return await writing.patch(core, served, call)

    async def watch(self, call: Call) -> WatchStream:
        if not call.is_authorized:
            self.authorize(call)
        if call.plural in _MADE_WHEN_ASKED_FOR and not self._is_complete:
            await self._prepare(call)
        served = self._find(call)
        _check_verb(served, call)
        try:
            return WatchStream(self._core, served, call)
        except StoreError as error:
            raise unavailable(error) from error

    def document(self, path: str, accept: str) -> Document | None:
        """Discovery and OpenAPI; None for a path that is neither."""
        address = self.access.address.partition("://")[2]
        return (
            self.access.document(path, accept)
            or self._openapi.document(path, accept)
            or self.discovery.document(path, accept, address)
        )

    def paths(self) -> list[str]:
        """Where it has a document to give, whether for programs or for people."""
        return [*accounttokens.PATHS, *openapi.PATHS, *self.discovery.paths()]

    async def close(self) -> None:
        """Ends the watches; the store stays open."""
        for stream in list(self._core.streams):
            stream.close()
        self.access.close()
        await self._background.close()
        await self._core.caller.close()


def _check_verb(served: Served, call: Call) -> None:
    if call.verb not in served.verbs:
        raise _refused(served, call)


def _refused(served: Served, call: Call) -> errors.ApiError:
    """Where a built-in resource takes no method at all there is no such path: one cannot list reviews of all
    namespaces, so nothing is there to create one at; ConfigMaps can be listed there, so the path exists.
    """
    if served.custom is not None or call.subresource:
        return _not_allowed(served, call.verb)
    if call.name:
        methods = _OF_OBJECTS
    elif served.resource.namespaced and not call.namespace:
        methods = _ACROSS_NAMESPACES
    else:
        methods = _OF_COLLECTIONS
    return _not_served(call) if methods.isdisjoint(served.verbs) else _not_allowed(served, call.verb)


def _not_allowed(served: Served, verb: str) -> errors.MethodNotAllowed:
    if not served.custom:
        return errors.MethodNotAllowed("the server does not allow this method on the requested resource")
    resource = served.resource
    message = f'{verb} is not supported on resources of kind "{served.group_resource}"'
    return errors.MethodNotAllowed(message, kind=resource.plural, group=resource.group)


def _no_subresource(served: Served, call: Call) -> errors.NotFound:
    if served.custom is not None:
        return errors.not_found(served.group_resource, call.name)
    return _not_served(call)


def _not_served(call: Call) -> errors.NotFound:
    return routing.not_found(f"/apis/{call.group}/" if call.group else "/api/")
