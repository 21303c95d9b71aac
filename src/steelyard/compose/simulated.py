"""The parts of a cluster on simulated machines, in the order in which they are applied.

Each comes after what it refers to, so that nothing has to be tried twice: the Cluster finds its infrastructure and its
control plane, and the MachineDeployment finds the Cluster.
"""

from __future__ import annotations

from steelyard.api import resources
from steelyard.api.clusterapi import resources as clusterapi_resources
from steelyard.compose import clusterapi, names
from steelyard.compose.clusterapi import Blueprint, reference
from steelyard.compose.composed import Desired
from steelyard.kube import objects
from steelyard.kube.objects import Object


def parts(blueprint: Blueprint) -> dict[str, Desired]:
    """By resource name."""
    name = blueprint.cluster
    infrastructure = blueprint.part(resources.SIMULATED_CLUSTERS, "infrastructure", name)
    control_plane_machines = _template(blueprint, "control-plane-machines", names.control_plane(name))
    worker_machines = _template(blueprint, "worker-machines", names.machine_deployment(name))
    worker_bootstrap = clusterapi.worker_bootstrap(blueprint)
    return {
        "infrastructure": Desired(resources.SIMULATED_CLUSTERS, infrastructure),
        "control-plane-machines": Desired(
            resources.SIMULATED_MACHINE_TEMPLATES, control_plane_machines, in_use_while_rolling=True
        ),
        "control-plane": Desired(
            clusterapi_resources.KUBEADM_CONTROL_PLANES,
            clusterapi.control_plane(blueprint, machines=_reference(control_plane_machines)),
        ),
        "cluster": Desired(
            clusterapi_resources.CLUSTERS,
            clusterapi.cluster(blueprint, infrastructure=reference(resources.SIMULATED_CLUSTERS, name)),
        ),
        "worker-machines": Desired(resources.SIMULATED_MACHINE_TEMPLATES, worker_machines, in_use_while_rolling=True),
        "worker-bootstrap": Desired(
            clusterapi_resources.KUBEADM_CONFIG_TEMPLATES, worker_bootstrap, in_use_while_rolling=True
        ),
        "workers": Desired(
            clusterapi_resources.MACHINE_DEPLOYMENTS,
            clusterapi.workers(
                blueprint,
                machines=_reference(worker_machines),
                bootstrap=reference(clusterapi_resources.KUBEADM_CONFIG_TEMPLATES, objects.name(worker_bootstrap)),
            ),
        ),
    }


def _template(blueprint: Blueprint, resource_name: str, base: str) -> Object:
    # The platform's delays stay out of it: turning them must not replace machines.
    spec: Object = {
        "template": {
            "spec": {
                "cpuCores": blueprint.used.cpu_cores,
                "memoryGi": blueprint.used.memory_gi,
                "diskGb": blueprint.used.disk_gb,
            }
        }
    }
    return blueprint.part(resources.SIMULATED_MACHINE_TEMPLATES, resource_name, names.template(base, spec), spec)


def _reference(template: Object) -> Object:
    return reference(resources.SIMULATED_MACHINE_TEMPLATES, objects.name(template))
