from __future__ import annotations

import pytest

from steelyard.kube import plainyaml


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("a: &a [x]\nb: [*a, *a]", "aliases", id="what a few lines could stand for"),
        pytest.param("a: &a {k: 1}\nb: {<<: *a}", "aliases", id="merged mappings"),
        pytest.param("[" * 65 + "]" * 65, "deeper than 64 levels", id="too deep for the loader's stack"),
        pytest.param(f"[{'a,' * 5_000}]", "more than 5000 values", id="more values than are read in no time"),
        pytest.param("a" * (plainyaml.MAX_BYTES + 1), "larger than", id="more bytes than any object"),
        pytest.param("a: [", "did not find expected node content", id="no YAML"),
        pytest.param("a: 1\n---\nb: 2", "more than one document", id="two documents where one is meant"),
        pytest.param("!!python/object:os.system x", "could not determine a constructor", id="an object of Python"),
    ],
)
def test_what_is_refused_says_why(text: str, reason: str) -> None:
    with pytest.raises(plainyaml.Unreadable, match=reason):
        plainyaml.load(text)


def test_what_a_machine_is_given_is_read() -> None:
    files = [{"path": f"/etc/{number}", "content": "x" * 1000, "permissions": "0600"} for number in range(500)]
    text = "write_files:\n" + "".join(
        f"  - path: {each['path']}\n    content: {each['content']}\n    permissions: '0600'\n" for each in files
    )
    assert plainyaml.load(text) == {"write_files": files}
