"""Files of every form, and the errors for broken ones."""

import gzip
import io
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.kubernetes import listed, namespace, node, node_group, pod, snapshot_of
from tests.builders.messages import write_snapshot
from tests.unit.common.objects.reading import names, text_column
from trimtab.common.objects import InvalidInputError, ObjectError, read_files, read_objects
from trimtab.common.recording import RecordingWriter
from trimtab.v1.snapshot_pb2 import SnapshotDelta

OBJECTS = [node("n1"), pod("a", node="n1"), pod("b"), namespace("default")]


def pod_list(*pods: Any) -> dict[str, Any]:
    """Return a list as the API returns it: items without `kind`."""
    bare = [{key: value for key, value in one.items() if key not in ("kind", "apiVersion")} for one in pods]
    return {"kind": "PodList", "apiVersion": "v1", "items": bare}


def dumped(value: Any, **options: Any) -> bytes:
    return json.dumps(value, **options).encode()


FORMS = [
    pytest.param([dumped(listed(*OBJECTS))], id="compact list"),
    pytest.param([dumped(listed(*OBJECTS), indent=4)], id="list as kubectl indents it"),
    pytest.param([dumped(one) for one in OBJECTS], id="a file for each object"),
    pytest.param([b"\n".join(dumped(one) for one in OBJECTS) + b"\n\n"], id="an object a line"),
    pytest.param([b"\n".join(dumped(listed(one), indent=4) for one in OBJECTS)], id="several lists in one file"),
    pytest.param([dumped(listed(*OBJECTS[:1], *OBJECTS[3:])), dumped(pod_list(*OBJECTS[1:3]))], id="a PodList"),
    pytest.param([dumped({"items": OBJECTS, "kind": "List", "apiVersion": "v1"})], id="keys in another order"),
    pytest.param([gzip.compress(dumped(listed(*OBJECTS)))], id="gzipped"),
    pytest.param([b"\xef\xbb\xbf" + dumped(listed(*OBJECTS))], id="with a byte order mark"),
    pytest.param([dumped(listed(*OBJECTS)).decode().encode("utf-16")], id="as PowerShell redirects it"),
    pytest.param([yaml.safe_dump(listed(*OBJECTS)).encode()], id="YAML list"),
    pytest.param([yaml.safe_dump_all(OBJECTS, explicit_start=True).encode()], id="YAML documents"),
    pytest.param([gzip.compress(b"---\n" + yaml.safe_dump_all([None, *OBJECTS]).encode())], id="gzipped YAML"),
    pytest.param(
        [yaml.safe_dump(listed(*OBJECTS)).replace("'2026-01-01T00:00:00Z'", "2026-01-01T00:00:00Z").encode()],
        id="YAML with bare times",
    ),
]


@pytest.mark.parametrize("contents", FORMS)
def test_every_form_gives_the_same_snapshot(contents: list[bytes], tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}" for i in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    built = read_files(paths)
    assert built.notes == []
    assert built.snapshot == snapshot_of(OBJECTS)


def test_kinds_that_are_not_needed_are_noted(tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    other_node = {"apiVersion": "config.openshift.io/v1", "kind": "Node", "metadata": {"name": "cluster"}}
    file.write_bytes(dumped(listed(service, service, other_node, pod())))
    assert read_files([file]).notes == [
        "skipped 1 of config.openshift.io/v1 Node: not read",
        "skipped 2 of v1 Service: not needed",
    ]


def wrong(obj: dict[str, Any], *path: str | int, value: Any) -> dict[str, Any]:
    """Return the object with one field replaced."""
    changed = json.loads(json.dumps(obj))
    target = changed
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return dict(changed)


BROKEN = [
    pytest.param(wrong(pod(), "spec", "containers", value="x"), "Pod", "default/p1", "spec.containers", id="type"),
    pytest.param(
        wrong(pod(), "spec", "containers", 0, "resources", value=3),
        "Pod",
        "default/p1",
        "spec.containers[0].resources",
        id="deep",
    ),
    pytest.param(
        wrong(pod(), "metadata", "creationTimestamp", value="yesterday"),
        "Pod",
        "default/p1",
        "metadata.creationTimestamp",
        id="time",
    ),
    pytest.param(
        wrong(pod(), "metadata", "name", value=None), "Pod", "default/(without name)", "metadata.name", id="name"
    ),
    pytest.param(
        wrong(pod(), "spec", "priority", value=2**63), "Pod", "default/p1", "spec.priority", id="absurd number"
    ),
    pytest.param(wrong(node(), "metadata", "labels", value=[]), "Node", "n1", "metadata.labels", id="node"),
    pytest.param(wrong(node(), "metadata", "name", value=5), "Node", "5", "metadata.name", id="name is a number"),
]


@pytest.mark.parametrize("form", [dumped, lambda value: yaml.safe_dump(value).encode()], ids=["json", "yaml"])
@pytest.mark.parametrize(("obj", "kind", "name", "field"), BROKEN)
def test_a_broken_object_names_file_kind_name_and_field(
    obj: dict[str, Any], kind: str, name: str, field: str, form: Any, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_bytes(form(listed(pod("fine"), node("fine"))))
    bad.write_bytes(form(listed(namespace("x"), obj)))
    with pytest.raises(ObjectError) as caught:
        read_files([good, bad])
    error = caught.value
    assert (error.file, error.kind, str(error.name), error.path) == (str(bad), kind, name, field)
    assert str(error).startswith(f"{bad}: {kind} {name}: {field}: ")


def test_the_same_object_twice_is_refused_with_both_files(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(dumped(listed(pod("a"), pod("b"))))
    second.write_bytes(dumped(listed(pod("c"), pod("b"))))
    with pytest.raises(ObjectError, match=r"Pod default/b: it is given twice, in .*first and in .*second; leave one"):
        read_files([first, second])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "it is empty", id="empty"),
        pytest.param(b" \n ", "it is empty", id="blank"),
        pytest.param(b'{"items": [', "truncated", id="cut off"),
        pytest.param(dumped(listed(pod())) + b"}", "malformed", id="too much"),
        pytest.param(b'{"items": [1]}', "not Kubernetes objects", id="a number as item"),
        pytest.param(b'{"a": 1}', "an object has no `kind`", id="no kind"),
        pytest.param(b"{}", "an object has no `kind`", id="nothing"),
        pytest.param(b'{"items": {}}', "not Kubernetes objects", id="items is not a list"),
        pytest.param(b"just text", "this is not an object but str", id="text"),
        pytest.param(b"a: [b", "neither JSON nor YAML", id="broken YAML"),
        pytest.param(b"\x00\x01\x02", "neither JSON nor YAML", id="binary"),
        pytest.param(b"[1, 2]", "this is not an object but int", id="array of numbers"),
        pytest.param(dumped(listed(pod("a"))).replace(b'"a"', b'"\xff"'), "not Kubernetes objects", id="not UTF-8"),
        pytest.param(b'{"items":' + b"[" * 100_000, "not Kubernetes objects", id="nested without end"),
        pytest.param(b"kind: Pod\napiVersion: v1\nitems: x", "`items` is not a list", id="YAML items"),
        pytest.param(gzip.compress(b"{}")[:-9], "damaged or cut off", id="cut off gzip"),
        pytest.param(b"\x1f\x8bnonsense", "damaged or cut off", id="broken gzip"),
        pytest.param(b"\x28\xb5\x2f\xfdnonsense", "damaged", id="broken recording"),
    ],
)
def test_what_cannot_be_read_is_said_with_the_file(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(content)
    with pytest.raises(InvalidInputError, match=message) as caught:
        read_files([file])
    assert str(file) in str(caught.value)


def test_a_file_that_does_not_exist_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read: No such file"):
        read_files([tmp_path / "none"])


def test_no_file_at_all_is_said_so() -> None:
    with pytest.raises(InvalidInputError, match="no file is given"):
        read_files([])


def test_progress_rises_to_the_whole(tmp_path: Path) -> None:
    file = tmp_path / "pods.json"
    file.write_bytes(dumped(listed(*[pod(f"p{i}") for i in range(5000)])))
    calls: list[tuple[int, int]] = []
    read_files([file], lambda done, total: calls.append((done, total)))
    done = [one for one, _ in calls]
    assert len({total for _, total in calls}) == 1
    assert done == sorted(done)
    assert len(done) > 4
    assert calls[-1][0] == calls[-1][1]


def test_a_recording_is_a_file_like_others(tmp_path: Path) -> None:
    file, expected = tmp_path / "x.trimtab", snapshot_of(OBJECTS)
    write_snapshot(file, expected)
    built = read_files([file], lambda done, total: None)
    assert (built.snapshot, built.notes) == (expected, [])


def test_of_a_recording_the_last_cluster_counts(tmp_path: Path) -> None:
    file = tmp_path / "x.trimtab"
    writer = RecordingWriter(file)
    writer.write(snapshot_of(pod("old")))
    writer.write(snapshot_of(pod("new")))
    writer.abandon()
    built = read_files([file])
    assert names(built.snapshot) == ["new"]
    assert [note.removeprefix(f"{file} ") for note in built.notes] == [
        "was not closed: its last loops may be missing",
        "holds a cluster at 2 moments; this is the last",
    ]


def test_changes_after_the_last_whole_cluster_are_reported_too(tmp_path: Path) -> None:
    file = tmp_path / "x.trimtab"
    with RecordingWriter(file) as writer:
        writer.write(snapshot_of([pod("a", node="n1"), pod("b"), node("n1")]))
        writer.write(SnapshotDelta(changed=snapshot_of([pod("c", node="n2"), node("n2")]), deleted_pods=["default/a"]))
        writer.write(SnapshotDelta())
        writer.write(SnapshotDelta(changed=snapshot_of(pod("b", node="n2")), deleted_nodes=["n1"]))
    built = read_files([file])
    assert names(built.snapshot) == ["b", "c"]
    assert text_column(built.snapshot, "node") == ["n2", "n2"]
    assert [row.name for row in built.snapshot.nodes] == ["n2"]
    assert built.notes == [f"{file} holds a cluster at 4 moments; this is the last"]


def test_changes_of_another_cluster_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.trimtab"
    with RecordingWriter(file) as writer:
        writer.write(snapshot_of(pod("a")))
        writer.write(SnapshotDelta(deleted_pods=["default/b"]))
    with pytest.raises(InvalidInputError, match=r"do not fit the cluster before them .*'default/b'.*; record again"):
        read_files([file])


def test_a_recording_beside_other_files_is_refused(tmp_path: Path) -> None:
    recording, other = tmp_path / "x.trimtab", tmp_path / "y.json"
    write_snapshot(recording, snapshot_of(OBJECTS))
    other.write_bytes(dumped(pod()))
    with pytest.raises(InvalidInputError, match="is a recording, which is a whole cluster; give it alone"):
        read_files([other, recording])


def test_a_recording_without_a_cluster_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.trimtab"
    with RecordingWriter(file):
        pass
    with pytest.raises(InvalidInputError, match="holds no whole cluster"):
        read_files([file])


def test_a_list_may_have_null_for_no_items(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    paths[0].write_bytes(b'{"apiVersion": "v1", "kind": "PodList", "items": null}')
    paths[1].write_bytes(b"apiVersion: v1\nkind: List\nitems:\n")
    assert read_objects(paths).given == {"Pod"}


def test_objects_remember_the_file_they_came_from(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_bytes(dumped(pod(path.name)))
    objects = read_objects(paths)
    assert [objects.file_of("Pod", one) for one in objects.of("Pod")] == [str(path) for path in paths]


def piped(content: bytes) -> str:
    """Return the path of a pipe that holds the content."""
    reader, writer = os.pipe()
    threading.Thread(target=lambda: (os.write(writer, content), os.close(writer)), daemon=True).start()
    return f"/dev/fd/{reader}"


@pytest.mark.parametrize("form", ["json", "gzip", "recording"])
def test_a_pipe_is_read_as_a_file_is(form: str, tmp_path: Path) -> None:
    recording = tmp_path / "x.trimtab"
    write_snapshot(recording, snapshot_of(OBJECTS))
    text = dumped(listed(*OBJECTS))
    content = {"json": text, "gzip": gzip.compress(text), "recording": recording.read_bytes()}[form]
    assert read_files([piped(content)]).snapshot == snapshot_of(OBJECTS)


def test_standard_input_is_a_file_beside_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pods.json"
    file.write_bytes(dumped(listed(*OBJECTS[1:])))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(dumped(OBJECTS[0])))))
    assert read_files([file, "-"]).snapshot == snapshot_of(OBJECTS)
    with pytest.raises(InvalidInputError, match="given twice"):
        read_files(["-", "-"])


@pytest.mark.parametrize("form", ["plain", "gzip", "recording"])
def test_an_input_that_is_larger_than_the_limit_is_refused(form: str, tmp_path: Path) -> None:
    file = tmp_path / "bomb"
    content = dumped(listed(*(pod(f"p{i}") for i in range(300))))
    if form == "recording":
        write_snapshot(file, snapshot_of([pod(f"p{i}", labels={"a": str(i)}) for i in range(300)]))
    else:
        file.write_bytes(gzip.compress(content) if form == "gzip" else content)
    with pytest.raises(InvalidInputError, match="larger than") as caught:
        read_files([file], max_bytes=5_000)
    assert str(file) in str(caught.value)
    read_files([file], max_bytes=len(content))


@pytest.mark.parametrize("text", [b"[" * 30_000, b"- " * 30_000, b'[{"a":' * 30_000, b'{"a":' * 30_000])
def test_nesting_without_end_is_refused(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "deep"
    file.write_bytes(text)
    with pytest.raises(InvalidInputError, match=str(file)):
        read_files([file])


@pytest.mark.parametrize(
    ("text", "where"),
    [
        pytest.param(
            dumped(listed(pod("a"))).replace(b'"name": "a"', b'"name": "a", "name": "b"'), "Pod", id="in an object"
        ),
        pytest.param(b'{"kind":"List","apiVersion":"v1","items":[],"items":[]}', "'items'", id="in a list"),
        pytest.param(dumped(pod("a"))[:-1] + b', "spec": {}}', "'spec'", id="in an object alone"),
        pytest.param(b"kind: Pod\napiVersion: v1\nmetadata: {name: a}\nmetadata: {}", "'metadata'", id="in YAML"),
    ],
)
def test_a_key_that_is_given_twice_is_refused(text: bytes, where: str, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(text)
    with pytest.raises(InvalidInputError, match=r"key '.*' is given twice") as caught:
        read_files([file])
    assert str(file) in str(caught.value)
    assert where in str(caught.value)


@pytest.mark.parametrize("text", ["a:b", '":', "\u003a", "é:\\:\n"])
def test_colons_in_texts_are_not_repeated_keys(text: str, tmp_path: Path) -> None:
    file, one = tmp_path / "input", node("n1", annotations={text: text})
    for content in (dumped(listed(one)), dumped(listed(one)).replace(b":b", b"\\u003ab")):
        file.write_bytes(content)
        assert [row.name for row in read_files([file]).snapshot.nodes] == ["n1"]


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        pytest.param({"kind": "Nodes"}, "v1 Nodes: this kind is unknown; did you mean Node?", id="kind"),
        pytest.param(
            {"apiVersion": "v9"}, "v9 Node: this version is unknown, known are v1; it is read as", id="version"
        ),
    ],
)
def test_a_kind_or_version_that_looks_wrong_is_noted(changes: dict[str, Any], note: str, tmp_path: Path) -> None:
    file = tmp_path / "input.json"
    file.write_bytes(dumped(listed({**node("n1"), **changes}, {**node("n2"), **changes})))
    assert sum(note in one for one in read_files([file]).notes) == 1


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param({"kind": "NodeGruop"}, "did you mean NodeGroup?", id="kind"),
        pytest.param({"kind": "Settings"}, "trimtab.dev has NodeGroup", id="another kind"),
        pytest.param({"apiVersion": "trimtab.dev/v2"}, "known are trimtab.dev/v1", id="version"),
    ],
)
def test_an_unknown_kind_or_version_of_trimtab_is_refused(
    changes: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    file = tmp_path / "input.json"
    for form in (dumped, lambda value: yaml.safe_dump(value).encode()):
        file.write_bytes(form(listed({**node_group("a"), **changes})))
        with pytest.raises(InvalidInputError, match=problem):
            read_files([file])
