"""What has a machine keep what its bootstrap has made, or say on its console that it has failed.

Cluster API's contract has bootstrap data make a file when it has succeeded, whoever wrote that data. A unit that
systemd starts when cloud-init is done looks for it, at the first start only. Where it is there, what the bootstrap has
written is put onto the disk: a machine that loses its power then must not find the manifests of its control plane
empty. Where it is missing, one line is written to the console, with the last that kubeadm said, or whatever was run in
its place. That line begins with what nobody else there writes: the machine's UUID, which no pod is told, is in it.
Whoever is root in the machine can write it as well, and deceives nobody else.
"""

from __future__ import annotations

from typing import Final

SENTINEL: Final = "/run/cluster-api/bootstrap-success.complete"
LOG: Final = "/var/log/cloud-init-output.log"
CONSOLE: Final = "/dev/console"
_PLACE: Final = "/run/steelyard/bootstrap"
_END: Final = "END_OF_WATCHING"
_LONGEST: Final = 1500

_WATCH: Final = """#!/bin/sh
if [ -e {sentinel} ]; then
    sync
    exit 0
fi
words=$(tail -c 65536 {log} | tr -d '\\000-\\006\\010\\013-\\032\\034-\\037\\177' | awk '
    # Colours and the like go as a whole; without its first character the rest would be text.
    {{ gsub(/\\033(\\[[0-9:;<=>?]*[@-~]|\\][^\\007\\033]*|[()*+].|[^\\[\\]()*+])/, ""); gsub(/[\\007\\033]/, "") }}
    # Those of cloud-init, and what kubeadm advises each time.
    /^[0-9-]+ [0-9:,]+ - [a-z_]+\\.py\\[/ || /^Cloud-init v\\./ || /^\\[preflight\\] If you know what/ {{ next }}
    /^ci-info: / || /^[ \\t]*$/ {{ next }}
    /^To see the stack trace of this error/ {{ said = is_error ? text : last(); is_error = 0; next }}
    {{ gsub(/^[ \\t]+|[ \\t]+$/, "") }}
    /^error/ {{ is_error = 1; text = ""; said = "" }}
    {{ lines[++count] = $0; if (is_error) text = joined(text, $0) }}
    function joined(before, line) {{ return before == "" ? line : before (before ~ /:$/ ? " " : "; ") line }}
    function last(   each, made) {{
        for (each = count > 3 ? count - 2 : 1; each <= count; each++) made = joined(made, lines[each])
        return made
    }}
    END {{
        if (said == "") said = is_error ? text : last()
        print substr(said, 1, {longest})
    }}')
# Again, as what the kernel says may stand in the middle of it.
for pause in 0 20 120; do
    sleep $pause
    printf '\\n%s%s\\n' '{mark}' "$words" >{console}
done
"""


def mark(uuid: str) -> str:
    """What the line begins with."""
    return f"steelyard: bootstrap of {uuid} failed: "


def program(uuid: str, *, sentinel: str = SENTINEL, log: str = LOG, console: str = CONSOLE) -> str:
    """What is run once cloud-init is done."""
    return _WATCH.format(sentinel=sentinel, log=log, console=console, mark=mark(uuid), longest=_LONGEST)


def script(uuid: str) -> str:
    """For the first start. A machine without systemd, or with one that is too old, says nothing and starts as well."""
    return (
        f"mkdir -p {_PLACE.rpartition('/')[0]}\n"
        f"cat >{_PLACE} <<'{_END}'\n{program(uuid)}{_END}\n"
        "systemd-run --quiet --no-block --collect --unit=steelyard-bootstrap --property=After=cloud-final.service "
        f"sh {_PLACE} || true\n"
    )
