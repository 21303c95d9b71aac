"""The objects as a Helm chart. What values may change are the namespace, the image, the number of replicas, the
platform file, and whether there is a ServiceMonitor. What is to run, and so the rights, are settled when it is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from steelyard.kube import objects
from steelyard.management.manifests import content
from steelyard.management.manifests.content import AsYaml, Install

FOLDER: Final = "chart"
_NAMESPACE: Final = "namespace-of-the-release"
_IMAGE: Final = "image-of-the-values"
_REPLICAS: Final = "replicas-of-the-values"
_SETTINGS: Final = "platform-of-the-values"
_FILLED: Final = {
    _NAMESPACE: "{{ .Release.Namespace }}",
    _IMAGE: '"{{ .Values.image.repository }}:{{ .Values.image.tag }}"',
    _REPLICAS: "{{ .Values.replicas }}",
    _SETTINGS: "{{ .Values.platform | toYaml | indent 4 | trim }}",
}
"""What stands in for what a release says, and the template that takes its place."""


def files(install: Install, as_yaml: AsYaml) -> Mapping[str, str]:
    # Of a text that is no word the placeholder would be quoted, or broken over lines.
    open_ = dataclasses.replace(
        install, namespace=_NAMESPACE, image=_IMAGE, replicas=_REPLICAS, platform_text=_SETTINGS
    )
    templates = {
        "policies": content.guards(install),
        "rights": content.rights(open_),
        "controllers": content.program(open_),
    }
    monitor = _template(content.documents([content.monitor(open_)], as_yaml))
    repository, _, tag = install.image.rpartition(":")
    replicas = objects.at(content.program(install)[-1], "spec", "replicas")
    return {
        "Chart.yaml": as_yaml(
            {
                "apiVersion": "v2",
                "name": "steelyard",
                "description": "Claims for clusters, databases and caches, on a management cluster.",
                "type": "application",
                "version": install.version,
                "appVersion": install.version,
                "kubeVersion": ">=1.30.0-0",
            }
        ),
        "values.yaml": as_yaml(
            {
                "image": {"repository": repository, "tag": tag},
                "replicas": replicas,
                "serviceMonitor": {"enabled": False},
                "platform": install.platform_text,
            }
        ),
        # Helm installs what is there before anything else, and never changes it again.
        **{f"crds/{objects.name(each)}.yaml": as_yaml(each) for each in content.definitions(install)},
        **{
            f"templates/{name}.yaml": _template(content.documents(made, as_yaml))
            for name, made in templates.items()
            if made
        },
        "templates/servicemonitor.yaml": f"{{{{- if .Values.serviceMonitor.enabled }}}}\n{monitor}{{{{- end }}}}\n",
    }


def _template(text: str) -> str:
    """Braces of the text itself stay what they are."""
    found = text.replace("{{", '{{ "{{" }}')
    for placeholder, filled in _FILLED.items():
        found = found.replace(placeholder, filled)
    return found
