"""The webhooks and policies that a server has been told of, kept as its stored configurations say.

A change counts from the moment its write is acknowledged (`load`). Which of them may be concerned with a request is
found once per kind, subresource and operation; a server without configurations answers from an empty dictionary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from steelyard.frozen import frozen
from steelyard.kube import objects, selectors
from steelyard.kube.objects import Object
from steelyard.kube.server.catalogue import matching, policies
from steelyard.kube.server.catalogue.matching import Criteria, Hook, Operation
from steelyard.kube.server.catalogue.policies import BINDINGS, POLICIES, Binding, Policy
from steelyard.kube.server.catalogue.registry import Registry, Served
from steelyard.kube.server.expressions import matchconditions
from steelyard.kube.server.space import keys
from steelyard.kube.server.space.background import Work
from steelyard.kube.server.webhooks import clientconfig
from steelyard.kube.store.record import Change, Record
from steelyard.kube.store.store import Store

GROUP: Final = "admissionregistration.k8s.io"
MUTATING: Final = "mutatingwebhookconfigurations"
VALIDATING: Final = "validatingwebhookconfigurations"
KINDS: Final = frozenset({MUTATING, VALIDATING, POLICIES, BINDINGS})
_DEFAULT_SECONDS: Final = 10


@frozen
class Plan:
    """The hooks whose rules match a kind of request, each with the version in which it wants to see the object, and the
    policies that may be concerned with it."""

    mutating: tuple[tuple[Hook, Served], ...]
    validating: tuple[tuple[Hook, Served], ...]
    policies: tuple[Policy, ...] = ()


class Configurations(Work):
    def __init__(self, store: Store, space: str, registry: Registry) -> None:
        super().__init__()
        self._store = store
        self._registry = registry
        self._prefixes = {plural: keys.collection(space, GROUP, plural) for plural in sorted(KINDS)}
        self._stored: dict[str, tuple[Hook, ...]] = {}
        """Key of a configuration to its hooks."""
        self._bindings: dict[Record, tuple[str, Binding]] = {}
        """Each with the name of its policy."""
        self._policies: dict[Record, Policy] = {}
        """Those that are bound. They stay as long as they do not change: what is compiled of them does, too."""
        self._plans: dict[tuple[Served, str, Operation], Plan | None] = {}
        self._planned_for = -1

    def load(self, records: Iterable[Record]) -> None:
        """Takes the configurations as they are now stored."""
        self._stored.clear()
        for plural in (MUTATING, VALIDATING):
            for record in self._store.scan(self._prefixes[plural]):
                hooks = map(objects.mapping, objects.sequence(record.object.get("webhooks")))
                self._stored[record.key] = tuple(_hook(hook) for hook in hooks)
        known = self._bindings
        scanned = self._store.scan(self._prefixes[BINDINGS])
        self._bindings = {each: known.get(each) or policies.binding(each.object) for each in scanned}
        bound: dict[str, list[Binding]] = {}
        for name, binding in self._bindings.values():
            bound.setdefault(name, []).append(binding)
        found = ((each, bound.get(keys.locate(each.key).name)) for each in self._store.scan(self._prefixes[POLICIES]))
        self._policies = {each: self._policy(each, bindings) for each, bindings in found if bindings}
        self._plans.clear()

    def _policy(self, record: Record, bindings: Sequence[Binding]) -> Policy:
        known = self._policies.get(record)
        return known if known is not None and known.bindings == tuple(bindings) else Policy(record.object, bindings)

    def observe(self, change: Change) -> None:
        if change.key.startswith(tuple(self._prefixes.values())):
            self.load(())

    def process(self, item: str) -> None:
        """Nothing is left to do once a change is known."""

    def plan(self, served: Served, subresource: str, operation: Operation) -> Plan | None:
        """None if neither a hook nor a policy can be concerned with such a request."""
        if not self._stored and not self._policies:
            return None
        if self._planned_for != self._registry.revision:
            self._plans.clear()
            self._planned_for = self._registry.revision
        request = (served, subresource, operation)
        if request not in self._plans:
            self._plans[request] = self._make_plan(*request)
        return self._plans[request]

    def _make_plan(self, served: Served, subresource: str, operation: Operation) -> Plan | None:
        def target(criteria: Criteria) -> Served | None:
            return matching.target(criteria, self._registry, served, subresource, operation)

        # Webhooks have no say about who is asked; policies do.
        hooks = self._stored if served.resource.group != GROUP else {}
        mutating, validating = (
            tuple(
                (hook, wanted)
                for key in sorted(hooks)
                if key.startswith(self._prefixes[plural])
                for hook in hooks[key]
                if (wanted := target(hook.criteria)) is not None
            )
            for plural in (MUTATING, VALIDATING)
        )
        concerned = tuple(policy for policy in self._policies.values() if target(policy.criteria) is not None)
        return Plan(mutating, validating, concerned) if mutating or validating or concerned else None


def _hook(hook: Object) -> Hook:
    return Hook(
        name=str(hook.get("name") or ""),
        criteria=Criteria(
            rules=tuple(policies.rule(objects.mapping(rule)) for rule in objects.sequence(hook.get("rules"))),
            is_exact=hook.get("matchPolicy") == "Exact",
            namespaces=selectors.from_object(objects.mapping(hook.get("namespaceSelector"))),
            objects=selectors.from_object(objects.mapping(hook.get("objectSelector"))),
        ),
        client_config=clientconfig.parse(objects.mapping(hook.get("clientConfig"))),
        timeout=float(hook.get("timeoutSeconds") or _DEFAULT_SECONDS),
        ignores_failure=hook.get("failurePolicy") == "Ignore",
        review_versions=tuple(map(str, objects.sequence(hook.get("admissionReviewVersions")))),
        side_effects=str(hook.get("sideEffects") or ""),
        reinvoked=hook.get("reinvocationPolicy") == "IfNeeded",
        conditions=tuple(
            (str(each.get("name") or ""), str(each.get("expression") or "").strip())
            for each in matchconditions.of(hook)
        ),
    )
