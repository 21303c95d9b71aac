"""Strategies of admission policies, which are kept for those who manage them but not acted on.

Whoever writes one is told so: a policy that nobody enforces must not be taken for one that is.
"""

from __future__ import annotations

from steelyard.kube.objects import Object
from steelyard.kube.server.strategies.base import Tracked


class PolicyStrategy(Tracked):
    def warnings(self, obj: Object, old: Object | None = None) -> tuple[str, ...]:
        del old
        return (f"{obj['kind']} is stored, but this server does not enforce admission policies; use a webhook",)
