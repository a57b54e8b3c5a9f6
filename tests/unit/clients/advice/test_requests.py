"""Requests far above a known use: what is advised, with which margin, and that lowering them frees what is promised."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import kubernetes as k8s
from tests.builders.advised_clusters import AdvisedCase, generated, promises
from tests.builders.carried_out import carried_out
from trimtab.clients.advice.levers.requests import ContainerUse, requests_above_use
from trimtab.clients.advice.result import Advice, AdviceReport
from trimtab.clients.planner_client import PlannerClient

Json = dict[str, Any]
MIB = 1 << 20
WEB = k8s.deployment("web", replicas=2)
OF_WEB = k8s.replica_set("web-1", replicas=2, owner=WEB)
USE = {f"default/web-1-{i}": {"main": ContainerUse(200, 100 * MIB)} for i in range(2)}


def cluster(cpu: str = "3", memory: str = "2Gi", **more: Any) -> list[Json]:
    """Return two nodes of 4 cores at 2 an hour, each with a pod of a Deployment; neither has room for the other pod."""
    group = k8s.node_group("a", min_size=0, max_size=9, selector={"pool": "a"}, price=2.0)
    nodes = [k8s.node(f"n{i}", labels={"pool": "a"}) for i in range(2)]
    pods = [k8s.pod(f"web-1-{i}", node=f"n{i}", cpu=cpu, memory=memory, owner=OF_WEB, **more) for i in range(2)]
    return [group, *nodes, WEB, OF_WEB, *pods]


def of_replica_set() -> list[Json]:
    """Return the same cluster with pods of a ReplicaSet that no Deployment has made."""
    group, *nodes = cluster()[:3]
    alone = k8s.replica_set("web-1", replicas=2)
    return [
        group, *nodes, alone,
        *(k8s.pod(f"web-1-{i}", node=f"n{i}", cpu="3", memory="2Gi", owner=alone) for i in (0, 1)),
    ]  # fmt: skip


def advised(
    planner: PlannerClient, case: AdvisedCase, use: Any = None, margin: float = 0.15
) -> tuple[AdviceReport, list[Advice]]:
    """Return the report, and what it advises on requests."""
    report = case.advice(planner, more=requests_above_use(USE if use is None else use, margin))
    return report, [one for one in report.advice if one.kind == "REQUESTS"]


def test_requests_far_above_use_are_advised_with_margin_and_command(planner: PlannerClient) -> None:
    case = AdvisedCase(cluster())
    report, (advice,) = advised(planner, case)
    assert report.base_nodes == ()
    assert advice.condition == (
        "a pod of Deployment default/web requested 230m of cpu, not 3000m, and 250Mi of memory, not 2048Mi (its use "
        "and 15 %, at least 25m and 250Mi)"
    )
    assert advice.lines == [
        "kubectl set resources deployment web -n default --containers=main --requests=cpu=230m,memory=250Mi"
    ]
    assert [(one.keys[-1], one.before, one.after) for one in advice.changes] == [
        ("cpu", "3000m", "230m"),
        ("memory", "2048Mi", "250Mi"),
    ]
    assert (advice.node_count, advice.saving_per_hour) == (1, 2.0)
    changed = AdvisedCase(*carried_out(case.objects, case.settings, advice.document())).plan(planner)
    assert tuple(one.node for one in changed.scale_down.unneeded) == advice.nodes


def test_without_usage_requests_are_never_lowered(planner: PlannerClient) -> None:
    kinds = {one.kind for one in AdvisedCase(cluster()).advice(planner).advice}
    assert "REQUESTS" not in kinds


@pytest.mark.parametrize(("margin", "cpu"), [(0.0, "200m"), (0.155, "231m"), (1.0, "400m")])
def test_the_margin_decides_the_request(planner: PlannerClient, margin: float, cpu: str) -> None:
    _, (advice,) = advised(planner, AdvisedCase(cluster()), margin=margin)
    assert advice.changes[0].after == cpu
    assert f"(its use and {100 * margin:g} %, at least 25m and 250Mi)" in advice.condition


def test_the_pod_that_uses_most_decides(planner: PlannerClient) -> None:
    use = {**USE, "default/web-1-1": {"main": ContainerUse(900, 100 * MIB)}}
    _, (advice,) = advised(planner, AdvisedCase(cluster()), use)
    assert advice.changes[0].after == "1035m"


def test_a_use_of_nearly_nothing_leaves_the_least_request_shared_by_containers(planner: PlannerClient) -> None:
    use = {key: {"main": ContainerUse(1, 1), "proxy": ContainerUse(2, 1)} for key in USE}
    _, (advice,) = advised(planner, AdvisedCase(cluster()), use)
    assert [line.split(" --")[1:] for line in advice.lines] == [
        [f"containers={name}", "requests=cpu=13m,memory=125Mi"] for name in ("main", "proxy")
    ]


def test_containers_that_are_not_known_have_a_line_without_a_command(planner: PlannerClient) -> None:
    use = {key: {"": ContainerUse(200, 100 * MIB)} for key in USE}
    _, (advice,) = advised(planner, AdvisedCase(cluster()), use)
    assert advice.lines[0] == (
        "set spec.template.spec.containers.*.resources.requests.cpu: 230m of Deployment/default/web (now 3000m)"
    )


@pytest.mark.parametrize(
    ("objects", "use"),
    [
        pytest.param(cluster(), {key: {"main": ContainerUse(2400, 1700 * MIB)} for key in USE}, id="not far above"),
        pytest.param(cluster(), {}, id="no figures"),
        pytest.param(of_replica_set(), USE, id="a ReplicaSet alone"),
        pytest.param(
            [*cluster(), *(k8s.pod(f"web-1-{i}", node="n0", cpu="1", owner=OF_WEB) for i in (2, 3, 4))],
            USE,
            id="figures of two pods of five",
        ),
    ],
)
def test_requests_are_left_alone_where_little_is_known_or_gained(
    planner: PlannerClient, objects: list[Json], use: Any
) -> None:
    assert advised(planner, AdvisedCase(objects), use)[1] == []


def test_memory_alone_is_lowered_where_cpu_is_used(planner: PlannerClient) -> None:
    use = {key: {"main": ContainerUse(950, 100 * MIB)} for key in USE}
    _, (advice,) = advised(planner, AdvisedCase(cluster(cpu="1", memory="12Gi")), use)
    assert [one.after for one in advice.changes] == ["250Mi"]
    assert "cpu" not in advice.condition


@given(st.integers(0, 4000), st.integers(0, 4000), st.floats(0, 2))
@settings(max_examples=15, deadline=None)
def test_a_new_request_is_at_least_every_use_and_never_above_the_old_one(
    planner: PlannerClient, one: int, other: int, margin: float
) -> None:
    use = {"default/web-1-0": {"main": ContainerUse(one, MIB)}, "default/web-1-1": {"main": ContainerUse(other, MIB)}}
    for advice in advised(planner, AdvisedCase(cluster()), use, margin)[1]:
        cpu = next((change.after for change in advice.changes if change.keys[-1] == "cpu"), "3000m")
        assert int(cpu[:-1]) <= 3000
        assert cpu == "3000m" or int(cpu[:-1]) >= max(one, other) * (1 + margin) - 0.01


def use_of(case: AdvisedCase, share: float) -> dict[str, dict[str, ContainerUse]]:
    """Return the same share of every pod's requests as its use."""
    found = {}
    for pod in case.objects:
        if pod["kind"] == "Pod":
            (container,) = pod["spec"]["containers"]
            asked = AdvisedCase([pod]).snapshot()
            amounts = {asked.resources[one.resource]: one.amount for one in asked.pod_specs[0].requests}
            used = ContainerUse(int(share * amounts.get("cpu", 0)), int(share * amounts.get("memory", 0)))
            found[f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"] = {container["name"]: used}
    return found


@pytest.mark.ci
@pytest.mark.parametrize("seed", [5, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(6, 100))])
def test_lowered_requests_free_the_promised_nodes_once_they_are_set(planner: PlannerClient, seed: int) -> None:
    case = generated(seed)
    report = case.advice(planner, 60, requests_above_use(use_of(case, 0.2)))
    for advice in promises(report):
        if any(keys.command.startswith("kubectl set resources") for keys in advice.changes):
            changed = AdvisedCase(*carried_out(case.objects, case.settings, advice.document()))
            going = {one.node for one in changed.plan(planner).scale_down.unneeded}
            assert going == set(report.base_nodes) - set(advice.staying) | set(advice.nodes), advice.sentence


@pytest.mark.ci
def test_a_generated_cluster_has_such_advice(planner: PlannerClient) -> None:
    case = generated(5)
    report = case.advice(planner, 60, requests_above_use(use_of(case, 0.2)))
    assert any(one.kind == "REQUESTS" for one in report.advice)
