"""That what `make e2e ARGS=--documented` types is on the page, and that a mirror serves what nodes pull from it."""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from steelyard.images import oci
from steelyard.images.layers import Entry
from tests.machines import documented, registry


def test_the_page_has_every_block_that_is_typed() -> None:
    settings, for_emulated = documented.blocks("The host", "yaml")
    assert documented.VERSION in settings
    assert "probePeriodSeconds" in for_emulated
    assert "steelyard doctor\n" in documented.blocks("The host")[1]
    assert f"--kubernetes {documented.VERSION}\n" in documented.blocks("The image")[0]
    create, look = documented.blocks("The first cluster")
    assert create.startswith("steelyard up ")
    assert "steelyard create cluster shop " in create
    assert look.startswith("export KUBECONFIG=")
    assert "steelyard logs machine NAME" in look
    run, delete = documented.blocks("The first pod")
    assert f"--image {documented.POD} " in run
    assert delete.startswith("steelyard delete shop ")


@pytest.mark.parametrize("asked", ["1.29", "by digest"])
def test_an_image_is_pulled_from_the_mirror(tmp_path: Path, asked: str) -> None:
    archive = tmp_path / "image.tar"
    made = oci.write(oci.ContainerImage(documented.POD, [Entry("/hello", b"hello\n")]), archive, 0)
    with registry.serving(archive, "127.0.0.1") as url:
        repository = f"{url}/v2/library/nginx"
        reference = made.manifest if asked == "by digest" else asked
        with urllib.request.urlopen(f"{repository}/manifests/{reference}?ns=docker.io", timeout=10) as answer:
            manifest = answer.read()
            assert answer.headers["Content-Type"] == "application/vnd.oci.image.manifest.v1+json"
        assert f"sha256:{hashlib.sha256(manifest).hexdigest()}" == made.manifest
        (layer,) = json.loads(manifest)["layers"]
        assert layer["digest"] == made.layer
        with urllib.request.urlopen(f"{repository}/blobs/{made.layer}", timeout=10) as answer:
            assert f"sha256:{hashlib.sha256(answer.read()).hexdigest()}" == made.layer
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/v2/library/another/manifests/1.29", timeout=10)
