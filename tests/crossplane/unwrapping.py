"""Back from what Crossplane is to make to what `steelyard render` prints: out of Objects, without what Crossplane and
the form add."""

from __future__ import annotations

from collections.abc import Iterable

from steelyard.api.crossplane import OBJECTS
from steelyard.compose import names
from steelyard.crossplane import forms
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.plan import marks
from steelyard.settings import Platform

_METADATA = ("name", "namespace", "labels", "annotations")
_OF_CROSSPLANE = (
    "crossplane.io/claim-name",
    "crossplane.io/claim-namespace",
    "crossplane.io/composite",
    "crossplane.io/composition-resource-name",
)


def rendered(found: Iterable[Object], platform: Platform) -> dict[str, Object]:
    """By the name of the part; Usages, and copies of credentials, are left out."""
    parts: dict[str, Object] = {}
    for obj in found:
        annotations = objects.annotations(obj)
        part = annotations.get(names.RESOURCE_NAME)
        if part is None or forms.MIRROR_OF in annotations:
            continue
        is_wrapped = (obj["apiVersion"], obj["kind"]) == (OBJECTS.api_version, OBJECTS.kind)
        assert part not in parts, f"{part} is there twice"
        parts[part] = _plain(obj["spec"]["forProvider"]["manifest"] if is_wrapped else obj, platform)
    return parts


def _plain(obj: Object, platform: Platform) -> Object:
    form = forms.of("namespaced", {"metadata": {"namespace": objects.namespace(obj)}}, platform)
    (made,) = form.required([obj])
    is_managed = made is not obj
    metadata = {key: value for key, value in objects.metadata(made).items() if key in _METADATA}
    for key in ("labels", "annotations"):
        left = {
            name: value
            for name, value in objects.mapping(metadata.pop(key, None)).items()
            if name not in (*_OF_CROSSPLANE, forms.OBJECT_NAME, marks.DIGEST)
        }
        if left:
            metadata[key] = left
    spec = objects.mapping(made.get("spec"))
    if is_managed and spec.get("deletionPolicy") == "Delete" and made["kind"] == "Release":
        # provider-helm's default, which a Release does not say.
        spec = {key: value for key, value in spec.items() if key != "deletionPolicy"}
    return {**made, "metadata": metadata, **({"spec": spec} if spec else {})}
