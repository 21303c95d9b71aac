"""Roles and bindings as an index: who is bound to what where. Decisions are remembered until something changes.

What is asked for is text that anybody may choose, so a decision is remembered for everything that is decided alike: a
name that no rule names and a namespace without bindings do not count. Long texts are decided each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from steelyard.frozen import frozen
from steelyard.kube import fields, objects
from steelyard.kube.objects import Object
from steelyard.kube.server.call import SYSTEM_MASTERS, User
from steelyard.kube.server.rights import rules
from steelyard.kube.server.rights.authz import ALLOWED, Attributes, Decision
from steelyard.kube.server.rights.rules import Rule

GROUP: Final = "rbac.authorization.k8s.io"
ROLES: Final = frozenset(("roles", "clusterroles"))
BINDINGS: Final = frozenset(("rolebindings", "clusterrolebindings"))
_REMEMBERED: Final = 2048
_LONGEST: Final = 512
"""Characters of a question whose answer is remembered."""

Place = tuple[str, str]
"""Namespace, empty for the cluster, and name."""


@frozen
class Binding:
    namespace: str
    name: str
    role_kind: str
    role: str
    subjects: dict[str, str]
    """Subject key to how a reason calls it."""

    def described(self, subject: str) -> str:
        kind, name = ("RoleBinding", f"{self.name}/{self.namespace}") if self.namespace else (_CLUSTER, self.name)
        return f"{kind} {fields.quote(name)} of {self.role_kind} {fields.quote(self.role)} to {self.subjects[subject]}"


_CLUSTER: Final = "ClusterRoleBinding"


class RoleMissing(Exception):
    """A binding names a role that does not exist; the message is upstream's."""


class Policy:
    __slots__ = ("_bindings", "_by_subject", "_decisions", "_names", "_roles")

    def __init__(self) -> None:
        self._roles: dict[Place, tuple[Rule, ...]] = {}
        self._bindings: dict[Place, Binding] = {}
        self._by_subject: dict[str, dict[str, dict[str, Binding]]] = {}
        """Namespace to subject to the bindings there, by name."""
        self._names: Counter[str] = Counter()
        """The names that rules name, and how often."""
        self._decisions: dict[Attributes, Decision] = {}

    def put(self, plural: str, obj: Object) -> None:
        place = (objects.namespace(obj), objects.name(obj))
        if plural in ROLES:
            self._forget_role(place)
            self._roles[place] = rules.compiled(obj.get("rules"))
            self._names.update(_names(self._roles[place]))
        elif plural in BINDINGS:
            self._unbind(place)
            self._bind(place, _binding(obj))
        self._decisions.clear()

    def remove(self, plural: str, namespace: str, name: str) -> None:
        if plural in ROLES:
            self._forget_role((namespace, name))
        elif plural in BINDINGS:
            self._unbind((namespace, name))
        self._decisions.clear()

    def _forget_role(self, place: Place) -> None:
        for name in _names(self._roles.pop(place, ())):
            self._names[name] -= 1
            if not self._names[name]:
                del self._names[name]

    def _bind(self, place: Place, binding: Binding) -> None:
        self._bindings[place] = binding
        here = self._by_subject.setdefault(place[0], {})
        for subject in binding.subjects:
            here.setdefault(subject, {})[binding.name] = binding

    def _unbind(self, place: Place) -> None:
        binding = self._bindings.pop(place, None)
        if binding is None:
            return
        here = self._by_subject.get(place[0], {})
        for subject in binding.subjects:
            del here[subject][binding.name]
            if not here[subject]:
                del here[subject]
        if not here:
            # There may be nothing already: a binding need not have subjects.
            self._by_subject.pop(place[0], None)

    def decide(self, asked: Attributes) -> Decision:
        if SYSTEM_MASTERS in asked.user.groups:
            return ALLOWED
        alike = self._alike(asked)
        decision = self._decisions.get(alike)
        if decision is None:
            decision = self._look_up(alike)
            if _length(alike) <= _LONGEST:
                if len(self._decisions) >= _REMEMBERED:
                    self._decisions.clear()
                self._decisions[alike] = decision
        return decision

    @property
    def remembered(self) -> int:
        """Characters of the questions whose answers are remembered."""
        return sum(map(_length, self._decisions))

    def _alike(self, asked: Attributes) -> Attributes:
        """The question without what makes no difference."""
        user, verb, path, group, plural, subresource, namespace, name = asked
        if namespace not in self._by_subject:
            namespace = ""
        if name not in self._names and "" not in self._names:
            name = ""
        return Attributes(user, verb, path, group, plural, subresource, namespace, name)

    def _look_up(self, asked: Attributes) -> Decision:
        missing: list[str] = []
        for subject, binding in self._bound(asked.user, asked.namespace):
            try:
                granted = self.role(binding.role_kind, binding.role, binding.namespace)
            except RoleMissing as error:
                missing.append(str(error))
                continue
            for rule in granted:
                if rule.allows(asked):
                    return Decision(True, f"RBAC: allowed by {binding.described(subject)}")
        return Decision(False, f"RBAC: {_aggregated(missing)}" if missing else "")

    def _bound(self, user: User, namespace: str) -> Iterator[tuple[str, Binding]]:
        """Each binding that applies once, with the subject through which it does."""
        subjects = [_user_key(user.name), *map(_group_key, user.groups)]
        for place in ("", namespace) if namespace else ("",):
            here = self._by_subject.get(place)
            if here:
                found: dict[str, tuple[str, Binding]] = {}
                for subject in subjects:
                    for name, binding in here.get(subject, _NONE).items():
                        found.setdefault(name, (subject, binding))
                yield from (found[name] for name in sorted(found))

    def role(self, kind: str, name: str, namespace: str) -> tuple[Rule, ...]:
        """The rules of the role that a binding refers to. Raises RoleMissing."""
        match kind:
            case "ClusterRole":
                place, plural = ("", name), "clusterrole"
            case "Role":
                place, plural = (namespace, name), "role"
            case _:
                raise RoleMissing(f"unsupported role reference kind: {fields.quote(kind)}")
        found = self._roles.get(place)
        if found is None:
            raise RoleMissing(f"{plural}.{GROUP} {fields.quote(name)} not found")
        return found

    def held(self, user: User, namespace: str) -> tuple[list[Rule], str]:
        """Every rule that applies to the user there, and what could not be found out."""
        found: list[Rule] = []
        missing: list[str] = []
        for _, binding in self._bound(user, namespace):
            try:
                found += self.role(binding.role_kind, binding.role, binding.namespace)
            except RoleMissing as error:
                missing.append(str(error))
        return found, _aggregated(missing)


_NONE: Final[dict[str, Binding]] = {}


def _names(granted: tuple[Rule, ...]) -> Iterator[str]:
    return (name for rule in granted for name in rule.names)


def _length(asked: Attributes) -> int:
    return sum(map(len, asked[1:])) + len(asked.user.name) + sum(map(len, asked.user.groups))


def _aggregated(texts: list[str]) -> str:
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""


def _binding(obj: Object) -> Binding:
    namespace = objects.namespace(obj)
    role = objects.mapping(obj.get("roleRef"))
    subjects: dict[str, str] = {}
    for subject in map(objects.mapping, objects.sequence(obj.get("subjects"))):
        kind, name = subject.get("kind"), str(subject.get("name") or "")
        match kind:
            case "User":
                subjects.setdefault(_user_key(name), f"User {fields.quote(name)}")
            case "Group":
                subjects.setdefault(_group_key(name), f"Group {fields.quote(name)}")
            case "ServiceAccount":
                home = str(subject.get("namespace") or namespace)
                if home:
                    key = _user_key(service_account(home, name))
                    subjects.setdefault(key, f"ServiceAccount {fields.quote(f'{name}/{home}')}")
            case _:
                pass
    return Binding(namespace, objects.name(obj), str(role.get("kind") or ""), str(role.get("name") or ""), subjects)


def service_account(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"system:serviceaccount:{namespace}:{name}"


def _user_key(name: str) -> str:
    return f"u:{name}"


def _group_key(name: str) -> str:
    return f"g:{name}"
