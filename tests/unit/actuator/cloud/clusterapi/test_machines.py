"""Machines as the API server lists them: state, group, marks, and answers that are not lists."""

import json
from typing import Any

import pytest

from trimtab.actuator.cloud.clusterapi.cloud import ClusterApiCloud
from trimtab.actuator.cloud.clusterapi.objects import MachineView, machine_view
from trimtab.actuator.cloud.provider import CloudError, Instance, InstanceError, InstanceState
from trimtab.actuator.kube.api import KubeApi
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import ApiRequest
from trimtab.common.kubernetes.json_envelope import ObjectList, decode
from trimtab.common.kubernetes.kinds.cluster_api import DELETE_MACHINE, Machine

Json = dict[str, Any]
LABELS = {"cluster.x-k8s.io/deployment-name": "g"}
REF = {"kind": "Node", "name": "n"}
SPEC = {"providerID": "test:///m", "bootstrap": {"dataSecretName": None}, "taints": [{"key": "unknown to us"}]}


def machine(spec: Json | None = None, status: Json | None = None, **meta: Any) -> MachineView | None:
    item: Json = {"metadata": {"name": "m", "namespace": "a", "uid": "u", "labels": LABELS, **meta}}
    item |= {"spec": SPEC if spec is None else spec, "status": status}
    items = decode(ObjectList[Machine], json.dumps({"items": [item]}).encode()).items or []
    return machine_view(items[0])


def found(**more: Any) -> MachineView:
    known = machine(**more)
    assert known is not None
    return known


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (None, InstanceState.CREATING),
        ({}, InstanceState.CREATING),
        ({"phase": "Provisioned"}, InstanceState.CREATING),
        ({"phase": "Provisioned", "nodeRef": REF}, InstanceState.RUNNING),
        ({"phase": "Running", "nodeRef": None}, InstanceState.RUNNING),
        ({"phase": "Failed", "nodeRef": REF}, InstanceState.RUNNING),
        ({"phase": "Deleting", "nodeRef": REF}, InstanceState.DELETING),
        ({"phase": "Deleted"}, InstanceState.DELETING),
    ],
)
def test_the_state_follows_from_phase_and_node(status: Json | None, state: InstanceState) -> None:
    assert found(status=status).instance == Instance("test:///m", state)
    leaving = found(status=status, deletionTimestamp="2026-01-01T00:00:00Z")
    assert leaving.instance.state is InstanceState.DELETING


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ({"phase": "Failed"}, InstanceError("MachineFailed", "MachineFailed")),
        ({"phase": "Failed", "failureReason": "Quota"}, InstanceError("Quota", "Quota")),
        ({"failureReason": "Quota", "failureMessage": "no more of it"}, InstanceError("Quota", "no more of it")),
    ],
)
def test_a_machine_that_failed_to_start_says_why(status: Json, error: InstanceError) -> None:
    assert found(status=status).instance == Instance("test:///m", InstanceState.CREATING, error)


def test_group_marks_and_the_id_before_there_is_a_provider_id() -> None:
    plain = found()
    assert (plain.group, plain.is_marked, plain.is_ours) == ("MachineDeployment/a/g", False, False)
    pool = found(labels={"cluster.x-k8s.io/pool-name": "p", "other": "label"}, annotations={DELETE_MACHINE: ""})
    assert (pool.group, pool.is_marked, pool.is_ours) == ("MachinePool/a/p", True, False)
    assert found(annotations={DELETE_MACHINE: "trimtab", "other": "note"}).is_ours
    assert found(spec={}).instance.id == "clusterapi://a/m" == plain.early_id
    assert [machine(labels=labels) for labels in (None, {}, {"pool": "a"})] == [None] * 3


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (b"", "Machine"),
        (b"<html>", "Machine"),
        (b'{"items": [{"metadata": {"name": "m"}}, {"spec": {}}]}', "$.items[1]"),
        (b'{"items": [{"metadata": {"name": "m"}, "spec": {"providerID": 7}}]}', "$.items[0].spec.providerID"),
        (b'{"items": "none"}', "$.items"),
        (b"\xff", "Machine"),
    ],
)
def test_an_answer_that_is_not_a_list_of_machines_is_an_error_that_names_the_place(answer: bytes, named: str) -> None:
    class Answering(Api):
        def __init__(self) -> None:
            pass

        def read(self, request: ApiRequest) -> bytes:
            return answer if request.path.endswith("/machines") else b"{}"

    with pytest.raises(CloudError, match="not the JSON of an API server's list of Machine") as caught:
        ClusterApiCloud(KubeApi(Answering())).node_groups()
    assert named in str(caught.value)
