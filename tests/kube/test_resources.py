from __future__ import annotations

from steelyard.kube import resources


def test_versions_rank_by_stability_then_number() -> None:
    versions = ["v1alpha1", "v1", "v2beta1", "foo", "v2", "v1beta2", "v10"]
    ranked = sorted(versions, key=resources.version_rank, reverse=True)
    assert ranked == ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]
