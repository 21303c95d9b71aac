"""What claims have installed in their clusters by name, each as an Application of Argo CD's.

A cluster is ready without them: whether they are in place is a condition of its own.
"""

from __future__ import annotations

from typing import Final

from steelyard.compose.composed import Condition, Desired, Observed
from steelyard.compose.integrations import ADD_ONS, argocd
from steelyard.compose.integrations.subject import NOTHING, Integrated, Subject
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.settings.integrations import AddOns, Chart

_INSTALLED: Final = "AddOnsInstalled"


@frozen
class _AddOn:
    chart: str
    namespace: str
    parameters: tuple[tuple[str, str], ...] = ()


_KNOWN: Final = {
    # Kubelets that kubeadm sets up sign their own serving certificates.
    "metrics-server": _AddOn("metrics-server", "kube-system", (("args[0]", "--kubelet-insecure-tls"),)),
    "kube-state-metrics": _AddOn("kube-state-metrics", "monitoring"),
    "node-exporter": _AddOn("prometheus-node-exporter", "monitoring"),
    "cert-exporter": _AddOn("cert-exporter", "monitoring"),
}


def of(subject: Subject) -> Integrated:
    settings = subject.platform.integrations.argocd
    wanted = {part: name for part, name in ADD_ONS.items() if name in subject.shape.add_ons}
    if not wanted:
        return NOTHING
    if not settings.enabled:
        return Integrated(conditions=[_nobody(", ".join(wanted.values()))])
    if not subject.endpoint:
        waiting = Condition(_INSTALLED, "False", "Waiting", "waiting for the address of the cluster's API")
        return Integrated(retained=frozenset(wanted), conditions=[waiting])
    parts = {
        part: argocd.application(
            subject.shape,
            subject.claim,
            settings,
            name=name,
            chart=_KNOWN[name].chart,
            source=_source(settings.add_ons, name),
            endpoint=subject.endpoint,
            namespace=_KNOWN[name].namespace,
            parameters=dict(_KNOWN[name].parameters),
        )
        for part, name in wanted.items()
    }
    return Integrated(parts, conditions=[_progress(parts, subject.observed)])


def _source(charts: AddOns, name: str) -> Chart:
    match name:
        case "metrics-server":
            return charts.metrics_server
        case "kube-state-metrics":
            return charts.kube_state_metrics
        case "node-exporter":
            return charts.node_exporter
        case _:
            return charts.cert_exporter


def _progress(parts: dict[str, Desired], observed: Observed) -> Condition:
    missing = [
        f"{ADD_ONS[part]} (Application {objects.qualified_name(each.object)}: {problem})"
        for part, each in parts.items()
        if (problem := argocd.waiting_for(observed.resources.get(part)))
    ]
    if not missing:
        return Condition(_INSTALLED, "True", "Installed", ", ".join(ADD_ONS[part] for part in parts))
    return Condition(_INSTALLED, "False", "Waiting", f"waiting for Argo CD to install {', '.join(missing)}")


def _nobody(named: str) -> Condition:
    return Condition(
        _INSTALLED,
        "Unknown",
        "NobodyInstallsThem",
        f"nothing here installs {named}: enable integrations.argocd in the platform file, or install what is missing "
        "in the cluster by hand",
    )
