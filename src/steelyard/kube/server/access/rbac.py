"""The authorizer of a server: what its stored roles and bindings say, up to the last acknowledged change.

The index follows the store through a subscription that is drained before each decision, so that a right which was
withdrawn is gone with the answer to the request that withdrew it. A server that stores no roles yet decides by those it
would start with, which all servers of the process share.
"""

from __future__ import annotations

from typing import Final

from steelyard.kube.server.access import defaults
from steelyard.kube.server.call import SYSTEM_MASTERS
from steelyard.kube.server.rights.authz import ALLOWED, Attributes, Decision
from steelyard.kube.server.rights.policy import GROUP, Policy
from steelyard.kube.server.space import keys
from steelyard.kube.store.errors import Lagging
from steelyard.kube.store.record import Change
from steelyard.kube.store.store import Store
from steelyard.kube.store.watch import Subscription

_PREFIX: Final = f"{GROUP}/"


class Rbac:
    __slots__ = ("_policy", "_prefix", "_store", "_subscription")

    def __init__(self, store: Store, space: str) -> None:
        self._store = store
        self._prefix = f"{space}/{_PREFIX}"
        self._policy: Policy | None = None
        self._subscription: Subscription | None = None

    @property
    def has_stored(self) -> bool:
        return bool(self._store.scan(self._prefix, limit=1))

    def follow(self) -> None:
        """From now on decides by what is stored."""
        self.close()
        self._subscription = self._store.watch(self._prefix, self._store.revision)
        self._policy = Policy()
        for record in self._store.scan(self._prefix):
            self._policy.put(keys.locate(record.key).plural, record.object)

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None

    @property
    def policy(self) -> Policy:
        policy, subscription = self._policy, self._subscription
        if policy is None:
            return defaults.policy()
        if subscription is not None:
            try:
                changes = subscription.arrived()
            except Lagging:
                self.follow()
                return self.policy
            for change in changes:
                _observe(policy, change)
        return policy

    def decide(self, asked: Attributes) -> Decision:
        if SYSTEM_MASTERS in asked.user.groups:
            return ALLOWED
        return self.policy.decide(asked)


def _observe(policy: Policy, change: Change) -> None:
    place = keys.locate(change.key)
    if change.record is not None:
        policy.put(place.plural, change.record.object)
    else:
        policy.remove(place.plural, place.namespace, place.name)
