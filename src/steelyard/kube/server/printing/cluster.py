"""Tables of what a cluster consists of besides what runs: nodes, network, storage, access, configuration, events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from steelyard.kube import ages, objects
from steelyard.kube.objects import Object
from steelyard.kube.server.printing import cells
from steelyard.kube.server.printing.cells import NONE, UNSET, Cell, Cells

_UNKNOWN: Final = ages.UNKNOWN
_ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _config_map_size(obj: Object, now: datetime) -> Any:
    return len(objects.mapping(obj.get("data"))) + len(objects.mapping(obj.get("binaryData")))


def _node_status(obj: Object, now: datetime) -> Any:
    ready = cells.conditions(obj).get("Ready")
    status = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if objects.at(obj, "spec", "unschedulable") else status


def _node_roles(obj: Object, now: datetime) -> Any:
    prefix = "node-role.kubernetes.io/"
    roles = {label.removeprefix(prefix) for label in objects.labels(obj) if label.startswith(prefix)}
    roles |= {role for label, role in objects.labels(obj).items() if label == "kubernetes.io/role" and role}
    return ",".join(sorted(filter(None, roles))) or NONE


def _node_address(kind: str) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        addresses = map(objects.mapping, objects.sequence(objects.at(obj, "status", "addresses")))
        return next((address.get("address") for address in addresses if address.get("type") == kind), NONE)

    return cell


def _service_ports(obj: Object, now: datetime) -> Any:
    listed: list[str] = []
    for port in map(objects.mapping, objects.sequence(objects.at(obj, "spec", "ports"))):
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        listed.append(f"{port.get('port')}{node_port}/{port.get('protocol') or 'TCP'}")
    return ",".join(listed) or NONE


def _balanced(obj: Object) -> list[str]:
    entries = map(objects.mapping, objects.sequence(objects.at(obj, "status", "loadBalancer", "ingress")))
    return sorted(filter(None, {str(entry.get("ip") or entry.get("hostname") or "") for entry in entries}))


def _service_external(obj: Object, now: datetime) -> Any:
    external = [str(address) for address in objects.sequence(objects.at(obj, "spec", "externalIPs"))]
    match objects.at(obj, "spec", "type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            return ",".join([*_balanced(obj), *external]) or "<pending>"
        case "ExternalName":
            return objects.at(obj, "spec", "externalName") or ""
        case _:
            return _UNKNOWN


def _endpoints(obj: Object, now: datetime) -> Any:
    subsets = [objects.mapping(subset) for subset in objects.sequence(obj.get("subsets"))]
    shown: list[str] = []
    for subset in subsets:
        addresses = [objects.mapping(each).get("ip") for each in objects.sequence(subset.get("addresses"))]
        ports = [objects.mapping(each).get("port") for each in objects.sequence(subset.get("ports"))]
        for port in ports or [None]:
            shown += [_host_port(str(address), port) for address in addresses]
    return cells.shortened(shown, 3) if subsets else NONE


def _host_port(address: str, port: Any) -> str:
    if port is None:
        return address
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _slice_ports(obj: Object, now: datetime) -> Any:
    ports = map(objects.mapping, objects.sequence(obj.get("ports")))
    shown = [str(port["port"] if port.get("port") is not None else port.get("name") or "*") for port in ports]
    return cells.shortened(shown, 3, default=UNSET)


def _slice_endpoints(obj: Object, now: datetime) -> Any:
    endpoints = map(objects.mapping, objects.sequence(obj.get("endpoints")))
    shown = [str(address) for each in endpoints for address in objects.sequence(each.get("addresses"))]
    return cells.shortened(shown, 3, default=UNSET)


def _hosts(obj: Object, now: datetime) -> Any:
    rules = map(objects.mapping, objects.sequence(objects.at(obj, "spec", "rules")))
    return cells.shortened([str(rule["host"]) for rule in rules if rule.get("host")], 3, default="*")


def _ingress_ports(obj: Object, now: datetime) -> Any:
    return "80, 443" if objects.sequence(objects.at(obj, "spec", "tls")) else "80"


def _class_parameters(obj: Object, now: datetime) -> Any:
    given = objects.at(obj, "spec", "parameters")
    if given is None:
        return NONE
    group = f".{given['apiGroup']}" if given.get("apiGroup") is not None else ""
    return f"{given.get('kind')}{group}/{given.get('name')}"


def _access_modes(*path: str) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        given = objects.sequence(objects.at(obj, *path))
        return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in given)

    return cell


def _if_bound(cell: Cell) -> Cell:
    """What a claim has only once there is a volume behind it."""
    return lambda obj, now: cell(obj, now) if objects.at(obj, "spec", "volumeName") else ""


def _volume_phase(obj: Object, now: datetime) -> Any:
    return "Terminating" if objects.is_being_deleted(obj) else objects.at(obj, "status", "phase") or ""


def _volume_class(obj: Object, now: datetime) -> Any:
    return objects.annotations(obj).get(_STORAGE_CLASS) or objects.at(obj, "spec", "storageClassName") or ""


def _claimed_by(obj: Object, now: datetime) -> Any:
    claim = objects.at(obj, "spec", "claimRef")
    return f"{claim.get('namespace') or ''}/{claim.get('name') or ''}" if claim is not None else ""


def _storage_class_name(obj: Object, now: datetime) -> Any:
    is_default = any(objects.annotations(obj).get(each) == "true" for each in _DEFAULT_CLASS)
    return f"{objects.name(obj)} (default)" if is_default else objects.name(obj)


def _audiences(obj: Object, now: datetime) -> Any:
    requests = objects.at(obj, "spec", "tokenRequests")
    if requests is None:
        return UNSET
    return ",".join(str(objects.mapping(each).get("audience") or "") for each in objects.sequence(requests))


def _quota(*, of_limits: bool) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        hard, used = (objects.mapping(objects.at(obj, "status", each)) for each in ("hard", "used"))
        return ", ".join(
            f"{resource}: {used.get(resource, '0')}/{hard[resource]}"
            for resource in sorted(hard)
            if resource.startswith("limits.") == of_limits
        )

    return cell


def _event_seen(*, first: bool) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        began = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
        last = objects.at(obj, "series", "lastObservedTime")
        last = last or obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")
        return ages.since(began if first else last or began, now)

    return cell


def _event_object(obj: Object, now: datetime) -> Any:
    involved = objects.mapping(obj.get("involvedObject") or obj.get("regarding"))
    return "/".join(filter(None, (str(involved.get("kind") or "").lower(), involved.get("name"))))


def _event_part(obj: Object, now: datetime) -> Any:
    return objects.mapping(obj.get("involvedObject") or obj.get("regarding")).get("fieldPath") or ""


def _event_source(obj: Object, now: datetime) -> Any:
    source = objects.mapping(obj.get("source") or obj.get("deprecatedSource"))
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    host = source.get("host") or obj.get("reportingInstance") or ""
    return ", ".join(filter(None, (component, host)))


def _event_message(obj: Object, now: datetime) -> Any:
    return str(obj.get("message") or obj.get("note") or "").strip()


def _event_count(obj: Object, now: datetime) -> Any:
    return objects.at(obj, "series", "count") or obj.get("count") or obj.get("deprecatedCount") or 1


def _bound_role(obj: Object, now: datetime) -> Any:
    return f"{objects.at(obj, 'roleRef', 'kind') or ''}/{objects.at(obj, 'roleRef', 'name') or ''}"


def _subjects(kind: str) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        listed = [objects.mapping(each) for each in objects.sequence(obj.get("subjects"))]
        named = [each for each in listed if each.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{each.get('namespace') or ''}/{each.get('name')}" for each in named)
        return ", ".join(str(each.get("name")) for each in named)

    return cell


def _request_condition(obj: Object, now: datetime) -> Any:
    met = cells.conditions(obj)
    decided = "Denied" if "Denied" in met else "Approved" if "Approved" in met else "Pending"
    failed = ",Failed" if "Failed" in met else ""
    return f"{decided}{failed}{',Issued' if objects.at(obj, 'status', 'certificate') else ''}"


def _requested_duration(obj: Object, now: datetime) -> Any:
    seconds = objects.at(obj, "spec", "expirationSeconds")
    return NONE if seconds is None else ages.human(seconds)


def _revised(obj: Object, now: datetime) -> Any:
    owner = objects.controller_of(obj)
    if owner is None:
        return NONE
    group = str(owner.get("apiVersion") or "").rpartition("/")[0]
    return f"{str(owner.get('kind')).lower()}{f'.{group}' if group else ''}/{owner.get('name')}"


def _param_kind(obj: Object, now: datetime) -> Any:
    kind = objects.at(obj, "spec", "paramKind")
    return UNSET if kind is None else f"{kind.get('apiVersion') or ''}/{kind.get('kind') or ''}"


def _param_ref(obj: Object, now: datetime) -> Any:
    given = objects.mapping(objects.at(obj, "spec", "paramRef"))
    if given.get("name"):
        return f"{given.get('namespace') or '*'}/{given['name']}"
    return cells.selector(objects.mapping(given.get("selector"))) or UNSET


def _service_of_api(obj: Object, now: datetime) -> Any:
    service = objects.at(obj, "spec", "service")
    return "Local" if service is None else f"{service.get('namespace') or ''}/{service.get('name') or ''}"


def _is_available(obj: Object, now: datetime) -> Any:
    available = cells.conditions(obj).get("Available")
    if available is None:
        return "Unknown"
    status = available.get("status")
    return status if status == "True" else f"{status} ({available.get('reason')})"


def _parent(obj: Object, now: datetime) -> Any:
    parent = objects.mapping(objects.at(obj, "spec", "parentRef"))
    if not parent:
        return NONE
    resource = ".".join(filter(None, (parent.get("resource"), parent.get("group")))).lower()
    return "/".join(filter(None, (resource, parent.get("namespace"), parent.get("name"))))


def _claim_state(obj: Object, now: datetime) -> Any:
    is_deleted = objects.is_being_deleted(obj)
    if objects.at(obj, "status", "allocation") is None:
        return "deleted" if is_deleted else "pending"
    states = ["deleted"] if is_deleted else []
    states.append("allocated")
    if objects.sequence(objects.at(obj, "status", "reservedFor")):
        states.append("reserved")
    return ",".join(states)


def _dangling(obj: Object, now: datetime) -> Any:
    return cells.conditions(obj).get("Dangling", {}).get("status") or "?"


_EVENTS: Final[Cells] = {
    "Last Seen": _event_seen(first=False),
    "Type": cells.at("type"),
    "Reason": cells.at("reason"),
    "Object": _event_object,
    "Subobject": _event_part,
    "Source": _event_source,
    "Message": _event_message,
    "First Seen": _event_seen(first=True),
    "Count": _event_count,
}
_BINDINGS: Final[Cells] = {
    "Role": _bound_role,
    "Users": _subjects("User"),
    "Groups": _subjects("Group"),
    "ServiceAccounts": _subjects("ServiceAccount"),
}
_WEBHOOKS: Final[Cells] = {"Webhooks": cells.length("webhooks")}
_LIMITED: Final = ("spec", "limited")
_QUEUING: Final = (*_LIMITED, "limitResponse", "queuing")

CELLS: Final[Mapping[str, Cells]] = {
    "/namespaces": {"Status": cells.at("status", "phase")},
    "/secrets": {"Type": cells.at("type"), "Data": cells.length("data")},
    "/configmaps": {"Data": _config_map_size},
    "/serviceaccounts": {"Secrets": cells.length("secrets")},
    "/nodes": {
        "Status": _node_status,
        "Roles": _node_roles,
        "Version": cells.at("status", "nodeInfo", "kubeletVersion"),
        "Internal-IP": _node_address("InternalIP"),
        "External-IP": _node_address("ExternalIP"),
        "OS-Image": cells.at("status", "nodeInfo", "osImage", default=_UNKNOWN),
        "Kernel-Version": cells.at("status", "nodeInfo", "kernelVersion", default=_UNKNOWN),
        "Container-Runtime": cells.at("status", "nodeInfo", "containerRuntimeVersion", default=_UNKNOWN),
    },
    "/services": {
        "Type": cells.at("spec", "type"),
        "Cluster-IP": cells.at("spec", "clusterIPs", 0, default=NONE),
        "External-IP": _service_external,
        "Port(s)": _service_ports,
        "Selector": cells.labels_at("spec", "selector"),
    },
    "/endpoints": {"Endpoints": _endpoints},
    "/resourcequotas": {"Request": _quota(of_limits=False), "Limit": _quota(of_limits=True)},
    "/persistentvolumes": {
        "Capacity": cells.at("spec", "capacity", "storage", default="0"),
        "Access Modes": _access_modes("spec", "accessModes"),
        "Reclaim Policy": cells.at("spec", "persistentVolumeReclaimPolicy"),
        "Status": _volume_phase,
        "Claim": _claimed_by,
        "StorageClass": _volume_class,
        "VolumeAttributesClass": cells.at("spec", "volumeAttributesClassName", default=UNSET),
        "Reason": cells.at("status", "reason"),
        "VolumeMode": cells.at("spec", "volumeMode", default=UNSET),
    },
    "/persistentvolumeclaims": {
        "Status": _volume_phase,
        "Volume": cells.at("spec", "volumeName"),
        "Capacity": _if_bound(cells.at("status", "capacity", "storage", default="0")),
        "Access Modes": _if_bound(_access_modes("status", "accessModes")),
        "StorageClass": _volume_class,
        "VolumeAttributesClass": cells.at("spec", "volumeAttributesClassName", default=UNSET),
        "VolumeMode": cells.at("spec", "volumeMode", default=UNSET),
    },
    "/events": _EVENTS,
    "events.k8s.io/events": _EVENTS,
    "apiregistration.k8s.io/apiservices": {"Service": _service_of_api, "Available": _is_available},
    "apps/controllerrevisions": {"Controller": _revised, "Revision": cells.number_at("revision")},
    "certificates.k8s.io/certificatesigningrequests": {
        "SignerName": cells.at("spec", "signerName", default=NONE),
        "Requestor": cells.at("spec", "username"),
        "RequestedDuration": _requested_duration,
        "Condition": _request_condition,
    },
    "networking.k8s.io/ingressclasses": {
        "Controller": cells.at("spec", "controller"),
        "Parameters": _class_parameters,
    },
    "networking.k8s.io/ingresses": {
        "Class": cells.at("spec", "ingressClassName", default=NONE),
        "Hosts": _hosts,
        "Address": lambda obj, now: ",".join(_balanced(obj)),
        "Ports": _ingress_ports,
    },
    "networking.k8s.io/ipaddresses": {"ParentRef": _parent},
    "networking.k8s.io/networkpolicies": {"Pod-Selector": cells.selector_at("spec", "podSelector")},
    "networking.k8s.io/servicecidrs": {"CIDRs": cells.joined("spec", "cidrs")},
    "rbac.authorization.k8s.io/rolebindings": _BINDINGS,
    "rbac.authorization.k8s.io/clusterrolebindings": _BINDINGS,
    "storage.k8s.io/csidrivers": {
        "AttachRequired": cells.at("spec", "attachRequired", default=True),
        "PodInfoOnMount": cells.at("spec", "podInfoOnMount", default=False),
        "StorageCapacity": cells.at("spec", "storageCapacity", default=False),
        "TokenRequests": _audiences,
        "RequiresRepublish": cells.at("spec", "requiresRepublish", default=False),
        "Modes": cells.joined("spec", "volumeLifecycleModes", default=NONE),
    },
    "storage.k8s.io/csinodes": {"Drivers": cells.length("spec", "drivers")},
    "storage.k8s.io/storageclasses": {
        "Name": _storage_class_name,
        "Provisioner": cells.at("provisioner"),
        "ReclaimPolicy": cells.at("reclaimPolicy", default="Delete"),
        "VolumeBindingMode": cells.at("volumeBindingMode", default="Immediate"),
        "AllowVolumeExpansion": cells.at("allowVolumeExpansion", default=False),
    },
    "storage.k8s.io/volumeattachments": {
        "Attacher": cells.at("spec", "attacher"),
        "PV": cells.at("spec", "source", "persistentVolumeName"),
        "Node": cells.at("spec", "nodeName"),
        "Attached": cells.at("status", "attached", default=False),
    },
    "storage.k8s.io/volumeattributesclasses": {"DriverName": cells.at("driverName")},
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": _WEBHOOKS,
    "admissionregistration.k8s.io/validatingwebhookconfigurations": _WEBHOOKS,
    "admissionregistration.k8s.io/validatingadmissionpolicies": {
        "Validations": cells.length("spec", "validations"),
        "ParamKind": _param_kind,
    },
    "admissionregistration.k8s.io/validatingadmissionpolicybindings": {
        "PolicyName": cells.at("spec", "policyName"),
        "ParamRef": _param_ref,
    },
    "scheduling.k8s.io/priorityclasses": {
        "Value": cells.number_at("value"),
        "Global-Default": cells.at("globalDefault", default=False),
        "PreemptionPolicy": cells.at("preemptionPolicy"),
    },
    "coordination.k8s.io/leases": {"Holder": cells.at("spec", "holderIdentity")},
    "node.k8s.io/runtimeclasses": {"Handler": cells.at("handler")},
    "discovery.k8s.io/endpointslices": {
        "AddressType": cells.at("addressType"),
        "Ports": _slice_ports,
        "Endpoints": _slice_endpoints,
    },
    "resource.k8s.io/resourceclaims": {"State": _claim_state},
    "resource.k8s.io/resourceslices": {
        "Node": cells.at("spec", "nodeName"),
        "Driver": cells.at("spec", "driver"),
        "Pool": cells.at("spec", "pool", "name"),
    },
    "flowcontrol.apiserver.k8s.io/flowschemas": {
        "PriorityLevel": cells.at("spec", "priorityLevelConfiguration", "name"),
        "MatchingPrecedence": cells.number_at("spec", "matchingPrecedence"),
        "DistinguisherMethod": cells.at("spec", "distinguisherMethod", "type", default=NONE),
        "MissingPL": _dangling,
    },
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": {
        "Type": cells.at("spec", "type"),
        "NominalConcurrencyShares": cells.at(*_LIMITED, "nominalConcurrencyShares", default=NONE),
        "Queues": cells.at(*_QUEUING, "queues", default=NONE),
        "HandSize": cells.at(*_QUEUING, "handSize", default=NONE),
        "QueueLengthLimit": cells.at(*_QUEUING, "queueLengthLimit", default=NONE),
    },
}
