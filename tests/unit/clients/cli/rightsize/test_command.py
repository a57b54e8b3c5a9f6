"""`trimtab rightsize`: recorded clusters, levels, what takes part, objects that hold the pods, and bad input."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.message import Message

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed
from trimtab.clients.cli import planners
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cli.rightsize.empty_cluster import empty_cluster
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.v1 import plan_pb2

Json = dict[str, Any]
RECORDINGS = Path(__file__).parents[5] / "clients" / "data" / "recordings"
CATALOG = RECORDINGS.parent / "machines.csv"
FEW = "few.csv"
NOW = ["--now", "2026-03-01T00:00:00Z"]
WEB, AGENT = k8s.replica_set("web", 6), k8s.daemon_set("agent")


def cluster() -> list[Json]:
    """Three m5.2xlarge in two zones with six small pods, an agent on each, and a control plane node."""
    nodes = [
        k8s.node(
            f"n{i}", cpu="8", memory="30Gi", zone=f"z{i % 2}",
            labels={"node.kubernetes.io/instance-type": "m5.2xlarge", "kubernetes.io/arch": "amd64", "team": "a"},
            taints=["only=a:NoSchedule"],
        )
        for i in range(3)
    ]  # fmt: skip
    master = k8s.node("m", labels={"node-role.kubernetes.io/control-plane": ""})
    tolerant = {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"team": "a"}}
    pods = [
        pod for i in range(3) for pod in k8s.pods_of(WEB, 6, node=f"n{i}", cpu="900m", spec=tolerant)[2 * i : 2 * i + 2]
    ]
    agents = [
        one for i in range(3) for one in k8s.pods_of(AGENT, 3, node=f"n{i}", cpu="500m", spec=tolerant)[i : i + 1]
    ]
    other = [k8s.pod("static", node="m", cpu="1"), k8s.pod("done", node="n0", phase="Succeeded")]
    return [*nodes, master, WEB, *pods, *agents, *other, k8s.namespace()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return listed(tmp_path, *cluster())


@pytest.fixture(autouse=True)
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write three machines of the list, as more take longer: that of the cluster, a smaller and a cheaper one."""
    head, *rows = CATALOG.read_text().splitlines(keepends=True)
    named = [row for row in rows if row.startswith(("m5.xlarge,", "m5.2xlarge,", "c6a.2xlarge,"))]
    (tmp_path / FEW).write_text("".join([head, *named]))
    monkeypatch.chdir(tmp_path)


KNOWN: dict[bytes, plan_pb2.PlanResponse] = {}
"""Answers to the requests of this module, most of which several tests make."""


@pytest.fixture(autouse=True)
def planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(self: Any, *request: Message) -> plan_pb2.PlanResponse:
        key = b"".join(part.SerializeToString(deterministic=True) for part in request)
        if key not in KNOWN:
            KNOWN[key] = planned(self, *request)  # type: ignore[arg-type]
        return copy.deepcopy(KNOWN[key])

    planned = planners._NotingPlanner.plan
    monkeypatch.setattr(planners._NotingPlanner, "plan", plan)


def answer(trimtab: Run, *arguments: str | Path, offers: str | Path = FEW) -> Json:
    done = trimtab("rightsize", *arguments, "--offers", offers, *NOW, "-o", "json")
    assert done.code == 0, done.err
    found: Json = json.loads(done.out)
    return found


def test_pools_of_a_cluster_have_its_labels_and_taints_and_room_for_its_daemon_sets(trimtab: Run, file: Path) -> None:
    found = answer(trimtab, file)
    assert found["now"] == {"nodes": 3, "pricePerHour": 1.152, "pricePerMonth": 840.96, "unpricedNodes": 0}
    assert sum(pool["pods"] for pool in found["pools"]) == 6
    assert {json.dumps(pool["labels"]) for pool in found["pools"]} == {'{"team": "a"}'}
    assert {text for pool in found["pools"] for text in pool["taints"]} == {"only=a:NoSchedule"}
    assert found["unplaced"] == []
    assert found["verified"] is True
    # 6 * 900m and 500m for the agent fit the 7.91 cores of one node; smaller ones need the agent's room each.
    assert [(pool["instanceType"], pool["nodes"]) for pool in found["pools"]] == [("c6a.2xlarge", 1)]


def test_levels_are_side_by_side_and_a_wider_one_never_costs_more(trimtab: Run, file: Path) -> None:
    levels = answer(trimtab, file)["levels"]
    prices = [levels[name]["pricePerHour"] for name in ("same-types", "same-family", "any")]
    assert prices == [0.384, 0.384, 0.306]


def test_the_chosen_level_decides_the_pools(trimtab: Run, file: Path) -> None:
    found = answer(trimtab, file, "--level", "same-types")
    assert {pool["instanceType"] for pool in found["pools"]} == {"m5.2xlarge"}


@pytest.mark.nightly
def test_other_architectures_and_capacity_types_take_part_only_if_asked_for(trimtab: Run, file: Path) -> None:
    done = trimtab("rightsize", file, "--offers", CATALOG, *NOW)
    assert "4 offerings of arm64 left out" in done.err.replace("\n", " ")
    assert {pool["instanceType"] for pool in answer(trimtab, file, "--arch", "arm64", offers=CATALOG)["pools"]} == {
        "m6g.xlarge"
    }
    spot = answer(trimtab, file, "--capacity-type", "on-demand,spot", offers=CATALOG)
    assert {pool["capacityType"] for pool in spot["pools"]} == {"spot"}


@pytest.mark.parametrize("name", [pytest.param("gardener-aws-scenario-c", marks=pytest.mark.nightly), "openshift-aws"])
def test_the_table_of_a_recorded_cluster_is_as_stored(trimtab: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    done = trimtab("rightsize", RECORDINGS / f"{name}.json.gz", "--offers", CATALOG, *NOW)
    shown = "\n".join(line.rstrip() for line in done.out.splitlines()) + "\n"
    assert shown == (Path(__file__).parent / f"{name}.txt").read_text()


def objects(trimtab: Run, file: Path, form: str, *more: str) -> list[Json]:
    done = trimtab("rightsize", file, "--offers", FEW, *NOW, "-o", form, *more)
    assert done.code == 0, done.err
    found: list[Json] = yaml.safe_load(done.out)["items"]
    return found


def test_the_written_node_groups_hold_the_pods(trimtab: Run, file: Path) -> None:
    groups = objects(trimtab, file, "nodegroups")
    empty = empty_cluster(build_snapshot(decode_objects(cluster())).snapshot)
    built = build_snapshot(
        decode_objects([{**one, "spec": {**one["spec"], "targetSize": 0}} for one in groups])
    ).snapshot
    assert [group.max_size for group in built.node_groups] == [2]
    decoded = decode_objects([{**one, "spec": {**one["spec"], "targetSize": 0}} for one in groups]).of("NodeGroup")
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_UP], now={"seconds": 1_800_000_000})
    with open_planner(None) as planner:
        plan = planner.plan(empty.with_groups(decoded), request).scale_up
    assert not plan.unschedulable
    assert [split.new_size for split in plan.splits] == [one["spec"]["targetSize"] for one in groups]


def test_the_written_node_pools_are_as_karpenter_accepts_them(trimtab: Run, file: Path) -> None:
    (pool,) = objects(trimtab, file, "karpenter")
    assert (pool["apiVersion"], pool["kind"]) == ("karpenter.sh/v1", "NodePool")
    assert pool["spec"].keys() <= {"template", "disruption", "limits", "weight", "replicas"}
    assert pool["spec"]["disruption"].keys() == {"consolidationPolicy", "consolidateAfter"}
    template = pool["spec"]["template"]
    assert template["spec"].keys() <= {"nodeClassRef", "requirements", "taints", "startupTaints", "expireAfter"}
    assert template["spec"]["nodeClassRef"].keys() == {"group", "kind", "name"}
    for requirement in template["spec"]["requirements"]:
        assert requirement.keys() == {"key", "operator", "values"}
        assert requirement["operator"] == "In"
        assert requirement["values"]
        assert all(isinstance(value, str) for value in requirement["values"])
    assert template["metadata"]["labels"]["team"] == "a"
    assert template["spec"]["taints"] == [{"key": "only", "value": "a", "effect": "NoSchedule"}]
    assert pool["spec"]["limits"] == {"cpu": "8", "memory": "16384Mi"}


def test_machine_deployments_get_sizes_and_what_scaling_from_zero_needs(trimtab: Run, file: Path) -> None:
    (one,) = objects(trimtab, file, "clusterapi", "--max-nodes", "7")
    annotations = one["metadata"]["annotations"]
    assert annotations["cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"] == "7"
    assert annotations["capacity.cluster-autoscaler.kubernetes.io/cpu"] == "8000m"
    assert annotations["capacity.cluster-autoscaler.kubernetes.io/taints"] == "only=a:NoSchedule"
    assert "team=a" in annotations["capacity.cluster-autoscaler.kubernetes.io/labels"]
    assert one["spec"]["replicas"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--min-nodes", "5", "--max-nodes", "2"], "--min-nodes 5 and --max-nodes 2 exclude each other"),
        (["--headroom", "much"], "--headroom much"),
        (["--capacity-type", "cheap"], "--capacity-type cheap: give some of on-demand, spot, reserved"),
        (["--capacity-type", "reserved"], "no offering has a price and is one of reserved"),
    ],
)
def test_options_that_cannot_be_used_are_refused(trimtab: Run, file: Path, arguments: list[str], said: str) -> None:
    done = trimtab("rightsize", file, "--offers", FEW, *arguments)
    assert done.code == 2
    assert said in done.err


def test_a_level_without_machines_in_the_list_is_said(trimtab: Run, tmp_path: Path) -> None:
    bare = listed(tmp_path, k8s.node("n", labels={"node.kubernetes.io/instance-type": "metal"}), k8s.pod("p", node="n"))
    done = trimtab("rightsize", bare, "--offers", FEW, "--level", "same-types")
    assert done.code == 2
    assert "--level same-types: the list has no instance type of the nodes; use --level any" in done.err
    assert "not in the list" in trimtab("rightsize", bare, "--offers", FEW).out


def test_without_offers_or_pods_there_is_nothing_to_say(trimtab: Run, file: Path, tmp_path: Path) -> None:
    assert "--offers is missing" in trimtab("rightsize", file).err
    (tmp_path / "empty").mkdir()
    none = listed(tmp_path / "empty", k8s.node("n"))
    assert "there is no pod to place" in trimtab("rightsize", none, "--offers", FEW).err


def test_nodes_without_a_price_are_counted_and_nothing_is_said_of_savings(trimtab: Run, tmp_path: Path) -> None:
    bare = listed(tmp_path, k8s.node("n", labels={"node.kubernetes.io/instance-type": "metal"}), k8s.pod("p", node="n"))
    assert answer(trimtab, bare)["now"]["unpricedNodes"] == 1
    shown = trimtab("rightsize", bare, "--offers", FEW, *NOW).out
    assert "1 node without a price in the list; --prices gives it." in shown
    assert answer(trimtab, bare, "--prices", "cpu=0.1")["now"]["pricePerHour"] == 0.4


@pytest.mark.ci
def test_no_saving_is_claimed_while_a_pod_has_no_place(trimtab: Run, tmp_path: Path) -> None:
    huge = k8s.pod("huge", cpu="7", node="n0", spec={"nodeSelector": {"disk": "none-has-it"}})
    node = k8s.node("n0", cpu="8", labels={"node.kubernetes.io/instance-type": "m5.2xlarge"})
    file = listed(tmp_path, node, huge, k8s.pod("p", node="n0", cpu="1"))
    shown = trimtab("rightsize", file, "--offers", FEW, *NOW).out
    assert "1 pod without a place" in shown
    assert "These groups were planned again: every other pod found its place." in shown
    assert "; now 1 node for" not in shown
    assert "%" not in next(line for line in shown.splitlines() if line.strip().startswith("any *"))
