"""Pods decoded together from JSON: what specs share is decoded once, and nothing reads otherwise than one by one."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.kubernetes import listed, pod
from trimtab.common.objects import (
    InvalidInputError,
    build_snapshot,
    decode_objects,
    read_files,
    read_objects,
)
from trimtab.common.objects.decode import add_text
from trimtab.common.objects.objects import Objects

ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
TOKEN = {"name": "kube-api-access-abcde", "projected": {}}


def written(tmp_path: Path, *pods: Any, **options: Any) -> Path:
    """Return a file with a list of pods."""
    file = tmp_path / "pods.json"
    file.write_text(json.dumps(listed(*pods), **options))
    return file


def with_spec(one: Any, **fields: Any) -> Any:
    """Return a pod with other fields in its spec."""
    return {**one, "spec": {**one["spec"], **fields}}


SPECIAL = [
    pytest.param([with_spec(pod(name), nodeName=node) for name, node in (("a", "é"), ("b", ""))], id="odd names"),
    pytest.param(
        [
            pod(
                f"p{i}",
                annotations={ANNOTATION: "kube-api-access-00001"},
                volumes=[{"name": f"kube-api-access-{i:05}", "hostPath": {}}],
            )
            for i in range(3)
        ],
        id="no token volumes, though called so",
    ),
    pytest.param(
        [pod(f"p{i}", node_selector={"a": f"kube-api-access-{i:05}"}) for i in range(3)], id="no volumes at all"
    ),
    pytest.param(
        [
            pod(
                f"p{i}",
                annotations={ANNOTATION: "scratch"} if i else None,
                volumes=[{"name": "scratch", "emptyDir": {}}],
            )
            for i in range(2)
        ],
        id="volumes that an annotation exempts",
    ),
    pytest.param([pod("a", labels={"a:b": 'c"d\\'}), pod("b", labels={"é": ":"})], id="colons and quotes"),
]


@pytest.mark.parametrize("indent", [None, 4], ids=["compact", "indented"])
@pytest.mark.parametrize("pods", SPECIAL)
def test_pods_of_one_list_read_as_they_do_one_by_one(pods: list[Any], indent: int | None, tmp_path: Path) -> None:
    expected = build_snapshot(decode_objects(pods))
    assert read_files([written(tmp_path, *pods, indent=indent)]) == expected


SPECS = st.fixed_dictionaries(
    {"containers": st.just([{"name": "main"}])},
    optional={
        "nodeName": st.sampled_from(["n1", "n2", "", "N", None]),
        "x": st.sampled_from([{"nodeName": "n1"}, {"nodeName": "n2"}, "nodeName", '"nodeName":"n1"', ":", "\\"]),
        "schedulerName": st.sampled_from(["", "a", "kube-api-access-abcde"]),
        "volumes": st.lists(
            st.sampled_from([TOKEN, {"name": "kube-api-access-00000", "emptyDir": {}}, {"name": "a", "hostPath": {}}])
        ),
    },
)


@given(st.lists(SPECS, min_size=2, max_size=5), st.sampled_from([None, 2]))
def test_any_specs_beside_each_other_read_as_they_do_one_by_one(specs: list[Any], indent: int | None) -> None:
    pods = [{**pod(f"p{i}"), "spec": spec} for i, spec in enumerate(specs)]
    objects = Objects()
    add_text(json.dumps(listed(*pods), indent=indent).encode(), "", objects)
    assert build_snapshot(objects) == build_snapshot(decode_objects(pods))


def test_the_pods_of_a_workload_share_what_their_specs_have_in_common(tmp_path: Path) -> None:
    volumes = [[{**TOKEN, "name": f"kube-api-access-{i:05}"}] for i in range(300)]
    pods = [pod(f"p{i}", node=f"n{i}", volumes=volumes[i]) for i in range(300)]
    decoded = read_objects([written(tmp_path, *pods)]).of("Pod")
    assert [one.spec.node_name for one in decoded] == [f"n{i}" for i in range(300)]
    assert len({id(one.spec.containers) for one in decoded}) == 1


REPEATED = [
    pytest.param('"spec": {', '"spec": {"priority": 1, "priority": 1, ', id="in the spec"),
    pytest.param('"name": "main"', '"name": "main", "name": "main"', id="in a container"),
    pytest.param('"status": {', '"status": {"phase": "Failed", ', id="in the status"),
    pytest.param('"spec": {', '"spec": {}, "spec": {', id="the spec itself"),
    pytest.param('"nodeName": "n1"', '"nodeName": "n1", "nodeName": "n1"', id="the node"),
    pytest.param('"nodeName": "n1"', '"nodeName": "n1", "node\\u004eame": "n1"', id="the node, escaped"),
    pytest.param('"spec": {', '"spec": {"\\u003a": 1, "\\u003A": 1, ', id="a key with an escaped colon"),
    pytest.param('"kind": "Pod"', '"kind": "Pod", "x": {"a": {"b": 1, "b": 2}}', id="in a field that is not read"),
]


@pytest.mark.parametrize(("text", "changed"), REPEATED)
def test_a_key_that_one_pod_of_many_has_twice_is_refused_with_the_pod(text: str, changed: str, tmp_path: Path) -> None:
    good, bad = [json.dumps(pod(name, node="n1")) for name in ("good", "bad")]
    assert text in bad
    items = [good, bad.replace(text, changed, 1), good.replace("good", "other")]
    file = tmp_path / "pods.json"
    file.write_text(f'{{"kind": "List", "apiVersion": "v1", "items": [{",".join(items)}]}}')
    with pytest.raises(InvalidInputError, match=r"Pod default/bad: key .* is given twice"):
        read_files([file])
