"""Where in Vault a claim may have credentials put, if its author names a path: at one of its namespace's, or at the one
of its environment as a whole.

    secret/apps/team-a                the namespace's
    secret/apps/team-a/<name>         one of the namespace's
    secret/apps/dev/team-a/<name>     one of the namespace's in an environment, as derived paths are
    secret/database/dev               the environment's, for the claim that has it first

Each path but the last kind is of one namespace only, however namespaces and environments are called; and each kind of
claim has folders of its own, so that none writes where another kind does. `problem` is asked at every use and says the
same as `policy`, which is judged when a claim is written: on the embedded API and on kube-apiserver alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.api import policies
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

_PATH: Final = "spec.parameters.vaultPath"
_ENVIRONMENT: Final = "object.spec.parameters.environment"


def problem(path: str, mount: str, folders: Sequence[str], environments: Sequence[str], namespace: str) -> str:
    """Why credentials may not be put there; empty if they may. `environments` are the names of the claim's own: as the
    claim has it, and what that stands for.

    >>> problem("secret/database/dev", "secret", ["database"], ["dev"], "team-a")
    ''
    """
    rest = path.split("/")[2:]
    is_theirs = (
        (len(rest) == 1 and rest[0] in (namespace, *environments))
        or (len(rest) == 2 and rest[0] == namespace)
        or (len(rest) > 2 and rest[0] in environments and rest[1] == namespace)
    )
    if is_theirs and path.startswith(tuple(f"{mount}/{folder}/" for folder in folders)):
        return ""
    return (
        f"it must be {_begin(mount, folders)}, and behind that {namespace}, {namespace}/<name>, "
        f"{environments[0]}/{namespace}/<name> or {environments[0]}: other paths are other people's"
    )


def policy(claims: Resource, mount: str, folders: Sequence[str], aliases: Mapping[str, str]) -> Object:
    """`aliases` of environments, and what each stands for."""
    canonical = ", ".join(f"'{alias}': '{name}'" for alias, name in aliases.items())
    has_folder = " || ".join(f"variables.path.startsWith('{mount}/{folder}/')" for folder in folders)
    variables = {
        "path": f"has(object.{_PATH}) ? string(object.{_PATH}) : ''",
        "isNew": f"variables.path != '' && (oldObject == null || !has(oldObject.{_PATH}) || oldObject.{_PATH} != "
        "variables.path)",
        "steps": "variables.path.split('/')",
        "environment": f"string({_ENVIRONMENT})",
        "environments": f"[variables.environment, variables.environment in {{{canonical}}} ? "
        f"{{{canonical}}}[variables.environment] : variables.environment]"
        if canonical
        else "[variables.environment]",
        "isTheirs": "size(variables.steps) == 3 && (variables.steps[2] == request.namespace || variables.steps[2] in "
        "variables.environments) || size(variables.steps) == 4 && variables.steps[2] == request.namespace || "
        "size(variables.steps) > 4 && variables.steps[2] in variables.environments && "
        "variables.steps[3] == request.namespace",
    }
    rule: Object = {
        "expression": f"!variables.isNew || variables.isTheirs && ({has_folder})",
        "reason": "Forbidden",
        "messageExpression": f"'{_PATH}: ' + variables.path + ': it must be {_begin(mount, folders)}, and behind that "
        "' + request.namespace + ', ' + request.namespace + '/<name>, ' + variables.environment + '/' + "
        "request.namespace + '/<name> or ' + variables.environment + ': other paths are other people\\'s'",
    }
    return {
        "apiVersion": policies.POLICIES.api_version,
        "kind": policies.POLICIES.kind,
        "metadata": {"name": f"vault-paths.{claims.group_resource}"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": policies.constraints([claims]),
            "variables": [{"name": name, "expression": each} for name, each in variables.items()],
            "validations": [rule],
        },
    }


def _begin(mount: str, folders: Sequence[str]) -> str:
    return " or ".join(f"{mount}/{each}/" for each in folders)
