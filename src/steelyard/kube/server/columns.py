"""What `kubectl get` shows of each kind: the columns of a Table, built in or declared by a CRD."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from steelyard.kube import ages, objects
from steelyard.kube.objects import Object
from steelyard.kube.server import jsonpath

Cell = Callable[[Object, datetime], Any]


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    priority: int = 0
    """0 is always shown, higher ones with `-o wide`."""
    description: str = ""

    def definition(self) -> Object:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


Columns = tuple[Column, ...]


def from_crd(declared: Iterable[Any]) -> Columns:
    """The columns of `additionalPrinterColumns`; the name, and the age where none is declared, come by themselves."""
    columns = [_declared(objects.mapping(column)) for column in declared]
    return (NAME, *columns) if columns else (NAME, AGE)


def builtin(group: str, plural: str) -> Columns:
    return _BUILTIN.get((group, plural), (NAME, AGE))


def _declared(column: Object) -> Column:
    path = jsonpath.lenient(str(column.get("jsonPath") or ""))
    kind = str(column.get("type") or "string")

    def cell(obj: Object, now: datetime) -> Any:
        return _typed(kind, jsonpath.find(path, obj), now)

    return Column(
        str(column.get("name") or ""),
        cell,
        kind,
        str(column.get("format") or ""),
        int(column.get("priority") or 0),
        str(
            column.get("description") or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
        ),
    )


def _typed(kind: str, value: Any, now: datetime) -> Any:
    if value is None:
        return None
    match kind:
        case "string":
            if isinstance(value, str):
                return value
            return orjson.dumps(value).decode()
        case "date":
            return ages.since(value, now)
        case "integer":
            return int(value) if isinstance(value, int | float) else None
        case "number":
            return value if isinstance(value, int | float) and not isinstance(value, bool) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case _:
            return None


def _name(obj: Object, now: datetime) -> Any:
    return objects.name(obj)


def _age(obj: Object, now: datetime) -> Any:
    return ages.since(objects.metadata(obj).get("creationTimestamp"), now)


def _at(*path: str | int, default: Any = "<none>") -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        value = objects.at(obj, *path)
        return default if value is None or value == "" else value

    return cell


def _length(*path: str) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        value = objects.at(obj, *path)
        return len(objects.mapping(value)) or len(objects.sequence(value))

    return cell


def _config_map_size(obj: Object, now: datetime) -> Any:
    return len(objects.mapping(obj.get("data"))) + len(objects.mapping(obj.get("binaryData")))


def _node_status(obj: Object, now: datetime) -> Any:
    conditions = map(objects.mapping, objects.sequence(objects.at(obj, "status", "conditions")))
    ready = next((condition.get("status") for condition in conditions if condition.get("type") == "Ready"), None)
    status = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    return f"{status},SchedulingDisabled" if objects.at(obj, "spec", "unschedulable") else status


def _node_roles(obj: Object, now: datetime) -> Any:
    prefix = "node-role.kubernetes.io/"
    roles = {label.removeprefix(prefix) for label in objects.labels(obj) if label.startswith(prefix)}
    roles |= {role for label, role in objects.labels(obj).items() if label == "kubernetes.io/role" and role}
    return ",".join(sorted(filter(None, roles))) or "<none>"


def _node_address(kind: str) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        addresses = map(objects.mapping, objects.sequence(objects.at(obj, "status", "addresses")))
        return next((address.get("address") for address in addresses if address.get("type") == kind), "<none>")

    return cell


def _service_ports(obj: Object, now: datetime) -> Any:
    listed: list[str] = []
    for port in map(objects.mapping, objects.sequence(objects.at(obj, "spec", "ports"))):
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        listed.append(f"{port.get('port')}{node_port}/{port.get('protocol') or 'TCP'}")
    return ",".join(listed) or "<none>"


def _service_external(obj: Object, now: datetime) -> Any:
    balanced = map(objects.mapping, objects.sequence(objects.at(obj, "status", "loadBalancer", "ingress")))
    addresses = [str(entry.get("ip") or entry.get("hostname") or "") for entry in balanced]
    addresses += [str(address) for address in objects.sequence(objects.at(obj, "spec", "externalIPs"))]
    if not addresses and objects.at(obj, "spec", "type") == "LoadBalancer":
        return "<pending>"
    return ",".join(filter(None, addresses)) or str(objects.at(obj, "spec", "externalName") or "<none>")


def _selector(*path: str) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        wanted = objects.mapping(objects.at(obj, *path))
        return ",".join(f"{key}={value}" for key, value in sorted(wanted.items())) or "<none>"

    return cell


def _ratio(have: tuple[str, ...], wanted: tuple[str, ...]) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        return f"{objects.at(obj, *have) or 0}/{objects.at(obj, *wanted) or 0}"

    return cell


def _statuses(obj: Object) -> list[Object]:
    return [objects.mapping(status) for status in objects.sequence(objects.at(obj, "status", "containerStatuses"))]


def _pod_ready(obj: Object, now: datetime) -> Any:
    ready = sum(1 for status in _statuses(obj) if status.get("ready"))
    return f"{ready}/{len(objects.sequence(objects.at(obj, 'spec', 'containers')))}"


def _pod_status(obj: Object, now: datetime) -> Any:
    if objects.is_being_deleted(obj):
        return "Terminating"
    waiting = (str(objects.at(status, "state", "waiting", "reason") or "") for status in _statuses(obj))
    shown: str = next(filter(None, waiting), "")
    return shown or objects.at(obj, "status", "reason") or objects.at(obj, "status", "phase") or "Unknown"


def _pod_restarts(obj: Object, now: datetime) -> Any:
    return str(sum(int(status.get("restartCount") or 0) for status in _statuses(obj)))


def _containers(field: str) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        spec = objects.at(obj, "spec", "template", "spec") or obj.get("spec")
        containers = map(objects.mapping, objects.sequence(objects.at(spec, "containers")))
        return ",".join(str(container.get(field) or "") for container in containers)

    return cell


def _event_last_seen(obj: Object, now: datetime) -> Any:
    seen = (
        objects.at(obj, "series", "lastObservedTime")
        or obj.get("lastTimestamp")
        or obj.get("eventTime")
        or obj.get("deprecatedLastTimestamp")
    )
    return ages.since(seen, now)


def _event_first_seen(obj: Object, now: datetime) -> Any:
    return ages.since(obj.get("firstTimestamp") or obj.get("eventTime"), now)


def _event_object(obj: Object, now: datetime) -> Any:
    involved = objects.mapping(obj.get("involvedObject") or obj.get("regarding"))
    return f"{str(involved.get('kind') or '').lower()}/{involved.get('name') or ''}"


def _event_source(obj: Object, now: datetime) -> Any:
    source = objects.mapping(obj.get("source"))
    return ", ".join(filter(None, (source.get("component"), source.get("host")))) or obj.get("reportingComponent") or ""


def _event_message(obj: Object, now: datetime) -> Any:
    return str(obj.get("message") or obj.get("note") or "").strip()


def _event_count(obj: Object, now: datetime) -> Any:
    return objects.at(obj, "series", "count") or obj.get("count") or 1


def _created_at(obj: Object, now: datetime) -> Any:
    return objects.metadata(obj).get("creationTimestamp")


def _role_of_binding(obj: Object, now: datetime) -> Any:
    return f"{objects.at(obj, 'roleRef', 'kind')}/{objects.at(obj, 'roleRef', 'name')}"


def _job_status(obj: Object, now: datetime) -> Any:
    conditions = map(objects.mapping, objects.sequence(objects.at(obj, "status", "conditions")))
    met = {str(condition.get("type")) for condition in conditions if condition.get("status") == "True"}
    return next((state for state in ("Complete", "Failed", "Suspended") if state in met), "Running")


NAME = Column("Name", _name, format="name", description="Name must be unique within a namespace.")
AGE = Column("Age", _age, description="How long ago the object was created.")

_integer = functools.partial(Column, type="integer")
_wide = functools.partial(Column, priority=1)
_template = (
    _wide("Containers", _containers("name")),
    _wide("Images", _containers("image")),
    _wide("Selector", _selector("spec", "selector", "matchLabels")),
)
_event_columns: Columns = (
    Column("Last Seen", _event_last_seen),
    Column("Type", _at("type", default="")),
    Column("Reason", _at("reason", default="")),
    Column("Object", _event_object),
    _wide("Source", _event_source),
    Column("Message", _event_message),
    _wide("First Seen", _event_first_seen),
    _wide("Count", _event_count),
    Column("Name", _name, format="name", priority=1),
)
_BUILTIN: dict[tuple[str, str], Columns] = {
    ("", "namespaces"): (NAME, Column("Status", _at("status", "phase", default="")), AGE),
    ("", "secrets"): (NAME, Column("Type", _at("type", default="Opaque")), _integer("Data", _length("data")), AGE),
    ("", "configmaps"): (NAME, _integer("Data", _config_map_size), AGE),
    ("", "serviceaccounts"): (NAME, _integer("Secrets", _length("secrets")), AGE),
    ("", "nodes"): (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", _at("status", "nodeInfo", "kubeletVersion", default="")),
        _wide("Internal-IP", _node_address("InternalIP")),
        _wide("External-IP", _node_address("ExternalIP")),
        _wide("OS-Image", _at("status", "nodeInfo", "osImage", default="<unknown>")),
        _wide("Kernel-Version", _at("status", "nodeInfo", "kernelVersion", default="<unknown>")),
        _wide("Container-Runtime", _at("status", "nodeInfo", "containerRuntimeVersion", default="<unknown>")),
    ),
    ("", "services"): (
        NAME,
        Column("Type", _at("spec", "type", default="ClusterIP")),
        Column("Cluster-IP", _at("spec", "clusterIP")),
        Column("External-IP", _service_external),
        Column("Port(s)", _service_ports),
        AGE,
        _wide("Selector", _selector("spec", "selector")),
    ),
    ("", "pods"): (
        NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _pod_restarts),
        AGE,
        _wide("IP", _at("status", "podIP")),
        _wide("Node", _at("spec", "nodeName")),
        _wide("Nominated Node", _at("status", "nominatedNodeName")),
    ),
    ("", "events"): _event_columns,
    ("events.k8s.io", "events"): _event_columns,
    ("", "persistentvolumeclaims"): (
        NAME,
        Column("Status", _at("status", "phase", default="Pending")),
        Column("Volume", _at("spec", "volumeName", default="")),
        Column("Capacity", _at("status", "capacity", "storage", default="")),
        Column("StorageClass", _at("spec", "storageClassName", default="")),
        AGE,
    ),
    ("coordination.k8s.io", "leases"): (NAME, Column("Holder", _at("spec", "holderIdentity", default="")), AGE),
    ("apiextensions.k8s.io", "customresourcedefinitions"): (NAME, Column("Created At", _created_at, type="date")),
    ("rbac.authorization.k8s.io", "roles"): (NAME, Column("Created At", _created_at, type="date")),
    ("rbac.authorization.k8s.io", "clusterroles"): (NAME, Column("Created At", _created_at, type="date")),
    ("rbac.authorization.k8s.io", "rolebindings"): (NAME, Column("Role", _role_of_binding), AGE),
    ("rbac.authorization.k8s.io", "clusterrolebindings"): (NAME, Column("Role", _role_of_binding), AGE),
    ("apps", "deployments"): (
        NAME,
        Column("Ready", _ratio(("status", "readyReplicas"), ("spec", "replicas"))),
        _integer("Up-to-date", _at("status", "updatedReplicas", default=0)),
        _integer("Available", _at("status", "availableReplicas", default=0)),
        AGE,
        *_template,
    ),
    ("apps", "statefulsets"): (NAME, Column("Ready", _ratio(("status", "readyReplicas"), ("spec", "replicas"))), AGE),
    ("apps", "replicasets"): (
        NAME,
        _integer("Desired", _at("spec", "replicas", default=0)),
        _integer("Current", _at("status", "replicas", default=0)),
        _integer("Ready", _at("status", "readyReplicas", default=0)),
        AGE,
        *_template,
    ),
    ("apps", "daemonsets"): (
        NAME,
        _integer("Desired", _at("status", "desiredNumberScheduled", default=0)),
        _integer("Current", _at("status", "currentNumberScheduled", default=0)),
        _integer("Ready", _at("status", "numberReady", default=0)),
        _integer("Up-to-date", _at("status", "updatedNumberScheduled", default=0)),
        _integer("Available", _at("status", "numberAvailable", default=0)),
        Column("Node Selector", _selector("spec", "template", "spec", "nodeSelector")),
        AGE,
        *_template,
    ),
    ("batch", "jobs"): (
        NAME,
        Column("Status", _job_status),
        Column("Completions", _ratio(("status", "succeeded"), ("spec", "completions"))),
        AGE,
    ),
}
