"""Puts container images where the containerd of a tree keeps its own, unpacked: machines start them without a network.

The tree's own containerd does it, in namespaces of its own, so what is kept is as that version wants it. The layers are
forgotten once unpacked, as containerd does itself where it is told to discard unpacked layers: a node never needs them
again, and they would double the size. What nothing refers to is removed before it ends, by deleting a lease: containerd
does it some time later otherwise, and a layer or an index would be left or not, as it happens. Its databases are
written anew without times, so that the same images give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from steelyard.images import commands, inside
from steelyard.images.oci import Archived

_KEPT_IN: Final = "var/lib/containerd"
_DATABASES: Final = (
    "io.containerd.metadata.v1.bolt/meta.db",
    "io.containerd.snapshotter.v1.overlayfs/metadata.db",
)
_IDENTITY: Final = "io.containerd.grpc.v1.introspection/uuid"
_SCRIPT: Final = """
set -eu
cat > /run/containerd.toml <<'END'
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "/run/containerd.sock"
END
ctr() { command ctr --address /run/containerd.sock --namespace k8s.io "$@"; }
containerd --config /run/containerd.toml --log-level warn > /run/containerd.log 2>&1 &
server=$!
waited=0
until ctr version > /dev/null 2>&1; do
  waited=$((waited + 1))
  if [ $waited -gt 300 ] || ! kill -0 $server; then
    echo "containerd did not start:" >&2
    tail -n 20 /run/containerd.log >&2
    exit 1
  fi
  sleep 0.2
done
while read -r archive layer; do
  ctr images import --snapshotter overlayfs "/mnt/$archive" > /dev/null
  ctr content rm "$layer" > /dev/null
done
ctr leases create --id last > /dev/null
ctr leases delete --sync last > /dev/null
ctr images list --quiet
kill -TERM $server
wait $server
"""


def preload(
    root: Path, archives: Path, images: Sequence[tuple[str, Archived]], timeless: Path, epoch: int
) -> list[str]:
    """Names of all images that the tree has then. `images` are names of files in `archives`, with what is in them."""
    listed = "".join(f"{file} {image.layer}\n" for file, image in images)
    names = inside.run(root, ["sh", "-c", _SCRIPT], shared=archives, given=listed.encode()).split()
    kept = root / _KEPT_IN
    for name in _DATABASES:
        database, rewritten = kept / name, kept / f"{name}.new"
        commands.run([str(timeless), str(epoch), str(database), str(rewritten)])
        rewritten.rename(database)
    # Each machine's containerd gives itself a name when it finds none.
    (kept / _IDENTITY).unlink(missing_ok=True)
    return names
