"""The client that sends Kubernetes objects: what it leaves out, and what it sends again."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import kubernetes as k8s
from tests.builders.object_door import from_objects
from tests.builders.planner_service import asking, make_shell
from tests.builders.random_objects import random_objects
from trimtab.clients.object_session import ObjectSession, trimmed
from trimtab.common.kubernetes.object_errors import InvalidInputError
from trimtab.common.rpc.server import Shell
from trimtab.v1 import plan_pb2


@pytest.fixture
def shell() -> Iterator[Shell]:
    with make_shell() as shell:
        yield shell


def outcome(objects: list[k8s.Json]) -> bytes | str:
    """Return the snapshot of objects, or why they are refused."""
    try:
        return from_objects(objects).snapshot.SerializeToString(deterministic=True)
    except InvalidInputError as error:
        return str(error)


@given(st.integers(0, 10**6))
def test_what_is_left_out_decides_nothing(seed: int) -> None:
    objects = random_objects(seed)
    assert outcome([json.loads(trimmed(one)) for one in objects]) == outcome(objects)


def test_what_decides_nothing_is_left_out() -> None:
    pod = k8s.pod("p1", annotations={"cni/ip": "10.0.0.1", "cost": "3"})
    pod["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    pod["spec"]["containers"][0] |= {"image": "nginx", "env": [{"name": "A", "value": "b"}]}
    text = trimmed(pod, ["cost"]).decode()
    assert not any(word in text for word in ("managedFields", "nginx", "env", "cni"))
    assert json.loads(text)["metadata"]["annotations"] == {"cost": "3"}


def test_kinds_whose_version_decides_are_sent_with_it_once() -> None:
    text = trimmed(k8s.pdb("b", {"app": "web"}))
    assert text.count(b'"apiVersion"') == text.count(b'"kind"') == 1


def test_a_session_sends_all_once_then_changes_and_all_again_to_a_planner_that_lacks_it(shell: Shell) -> None:
    with ObjectSession(shell.address) as session:
        session.put(k8s.node("n1"))
        session.put(k8s.pod("p1", node="n1"))
        session.put({"apiVersion": "x/v1", "kind": "Ignored", "metadata": {"name": "x"}})
        first = session.plan(asking())
        session.put(k8s.pod("p1", node="n1"))
        assert session.plan(asking()).snapshot_version == first.snapshot_version
        session.put(k8s.pod("p2", node="n1"))
        session.delete("v1", "Pod", "default", "p1")
        second = session.plan(asking())
        assert (second.diagnostics.pod_count, session.whole_count) == (1, 1)
        session._version = "forgotten"
        assert session.plan(asking()).snapshot_version == second.snapshot_version
        assert session.whole_count == 2


def test_settings_that_name_annotations_that_are_not_sent_are_an_error(shell: Shell) -> None:
    request = asking(decisions=[plan_pb2.Decision.POD_COSTS])
    request.settings.pod_costs.targets.add().strategies.add(annotation="cost")
    with ObjectSession(shell.address) as session, pytest.raises(ValueError, match="cost: the settings name them"):
        session.plan(request)


def test_an_object_without_a_name_is_an_error(shell: Shell) -> None:
    with ObjectSession(shell.address) as session, pytest.raises(ValueError, match="give whole objects"):
        session.put({"apiVersion": "v1", "kind": "Pod"})
