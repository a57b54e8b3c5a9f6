"""Each kind of blocker that can be lifted, alone in a small cluster: the advice names it, with the line to change, and
carried out it frees exactly the promised node. The best three are those of an exhaustive search.
"""

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.advised_clusters import AdvisedCase, promises
from tests.builders.carried_out import carried_out
from trimtab.clients.advice.result import AdviceReport
from trimtab.clients.planner_client import PlannerClient
from trimtab.v1 import plan_pb2

Json = dict[str, Any]
STORED = {"volumes": [{"name": "v", "emptyDir": {}}]}
WEB = k8s.deployment("web", replicas=2)
OF_WEB = k8s.replica_set("web-1", replicas=2, owner=WEB)
KEEP = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
ALL = {"scaleDown": {"utilizationThreshold": 1.0}}


def cluster(*objects: Json, minimum: int = 0, nodes: int = 2, **node: Any) -> list[Json]:
    """Return nodes of one group, at 2 an hour, the last one with most room, and further objects."""
    group = k8s.node_group("a", min_size=minimum, max_size=9, selector={"pool": "a"}, price=2.0)
    found = [k8s.node(f"n{i}", labels={"pool": "a"}, **node) for i in range(nodes)]
    return [group, *found, *objects]


def pod(name: str = "web-1-a", node: str = "n0", **more: Any) -> Json:
    return k8s.pod(name, node=node, owner=more.pop("owner", OF_WEB), **more)


def full(node: str = "n1") -> list[Json]:
    """Return a pod that takes nearly all of a node, and its controller."""
    owner = k8s.replica_set("full", replicas=1)
    return [owner, pod(f"full-{node}", node, cpu="3500m", owner=owner, spec=STORED)]


def stored(node: str = "n1") -> list[Json]:
    """Return a small pod that keeps data on a node, and its controller."""
    owner = k8s.replica_set("stored", replicas=1)
    return [owner, pod(f"stored-{node}", node, cpu="1", owner=owner, spec=STORED)]


BUDGET = k8s.pdb("web", 0, labels={"app": "web"}, healthy=1, desired=1, expected=1)
LABELLED = pod(labels={"app": "web"})
APART = k8s.anti_affinity({"matchLabels": {"app": "web"}})
KINDS = [
    pytest.param(
        cluster(WEB, OF_WEB, pod(spec=STORED), *full()),
        {},
        "LOCAL_STORAGE",
        "skipNodesWithLocalStorage: false",
        id="storage",
    ),
    pytest.param(
        cluster(WEB, OF_WEB, pod(annotations=KEEP), *full()),
        {},
        "NOT_SAFE_TO_EVICT",
        "kubectl patch deployment web -n default",
        id="annotation",
    ),
    pytest.param(
        cluster(k8s.pod("bare", node="n0"), *full()),
        {},
        "NO_CONTROLLER",
        "kubectl annotate pod bare -n default",
        id="no controller",
    ),
    pytest.param(
        cluster(WEB, OF_WEB, LABELLED, BUDGET, *full()), {}, "BUDGET", '{"spec":{"maxUnavailable":1', id="budget"
    ),
    pytest.param(
        cluster(
            WEB,
            OF_WEB,
            LABELLED,
            k8s.pdb("web", 1, labels={"app": "web"}, healthy=2, desired=1, expected=2),
            k8s.pdb("twin", 1, labels={"app": "web"}, healthy=1, desired=0, expected=1),
            *full(),
        ),
        {},
        "SEVERAL_BUDGETS",
        "kubectl delete pdb twin -n default",
        id="two budgets",
    ),
    pytest.param(
        cluster(WEB, OF_WEB, pod(), *full(), minimum=2),
        {},
        "GROUP_MINIMUM",
        "set spec.minSize: 1 of NodeGroup/a (now 2)",
        id="group minimum",
    ),
    pytest.param(
        cluster(WEB, OF_WEB, pod(cpu="2500m"), *stored()),
        {},
        "UTILIZATION",
        "set scaleDown.utilizationThreshold: 0.7 in the settings (now 0.5)",
        id="utilization",
    ),
    pytest.param(
        cluster(WEB, OF_WEB, pod(cpu="2500m"), *stored()),
        {"nodeGroups": {"a": {"utilizationThreshold": 0.3}}},
        "UTILIZATION",
        "set nodeGroups.a.utilizationThreshold: 0.7 in the settings (now 0.3)",
        id="utilization of a group",
    ),
    pytest.param(
        cluster(WEB, OF_WEB, pod(), *full()),
        {"planner": {"limits": [{"resource": "nodes", "minimum": "2"}]}},
        "CLUSTER_MINIMUM",
        "set planner.limits[0].minimum: 0",
        id="cluster minimum",
    ),
    pytest.param(
        cluster(
            WEB,
            OF_WEB,
            pod("web-1-a", "n0", labels={"app": "web"}, affinity=APART),
            pod("web-1-b", "n1", labels={"app": "web"}, affinity=APART),
        ),
        {},
        "ANTI_AFFINITY",
        "kubectl edit deployment web -n default",
        id="anti-affinity",
    ),
    pytest.param(
        cluster(
            WEB, OF_WEB, pod(), *full(), annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
        ),
        {},
        "NODE_ANNOTATION",
        "kubectl annotate node n0 cluster-autoscaler.kubernetes.io/scale-down-disabled-",
        id="node annotation",
    ),
    pytest.param(
        cluster(WEB, OF_WEB, pod(), *full()),
        {"scaleDown": {"enabled": False}},
        "SWITCHED_OFF",
        "set scaleDown.enabled: true",
        id="off",
    ),
    pytest.param(
        cluster(WEB, OF_WEB, pod(owner=k8s.job("web")), k8s.job("web"), *full()),
        {"scaleDown": {"jobPodsUnmovable": True}},
        "JOB",
        "set scaleDown.jobPodsUnmovable: false",
        id="job",
    ),
    pytest.param(
        cluster(WEB, OF_WEB, pod(), *full()),
        {"scaleDown": {"minReplicaCount": 3}},
        "FEW_REPLICAS",
        "set scaleDown.minReplicaCount: 0",
        id="few replicas",
    ),
    pytest.param(
        cluster(WEB, OF_WEB, pod(), *full()),
        {"scaleDown": {"minSavingPerEviction": 9}},
        "SMALL_SAVINGS",
        "set scaleDown.minSavingPerEviction: 0.0",
        id="small savings",
    ),
    pytest.param(
        cluster(
            k8s.pod(
                "proxy",
                node="n0",
                namespace="kube-system",
                created="2026-05-31T23:59:00Z",
                owner=k8s.replica_set("proxy", namespace="kube-system"),
            ),
            k8s.replica_set("proxy", namespace="kube-system"),
            *full(),
        ),
        {},
        "SYSTEM_POD",
        "set scaleDown.skipNodesWithSystemPods: false",
        id="system pod",
    ),
]


@pytest.mark.parametrize(("objects", "settings", "kind", "line"), KINDS)
def test_a_blocker_is_named_with_its_line_and_lifting_it_frees_the_promised_node(
    planner: PlannerClient, objects: list[Json], settings: Json, kind: str, line: str
) -> None:
    case = AdvisedCase(objects, settings)
    report = case.advice(planner)
    assert report.base_nodes == ()
    found = [one for one in report.advice if one.kind == kind]
    assert [text for one in found for text in one.lines if line in text], [one.lines for one in report.advice]
    for advice in found:
        changed = AdvisedCase(*carried_out(objects, settings, advice.document())).plan(planner)
        assert tuple(one.node for one in changed.scale_down.unneeded) == advice.nodes
        assert (advice.node_count, advice.saving_per_hour, advice.saving_per_month) == (1, 2.0, 1460.0)


def three_locks() -> AdvisedCase:
    """Return a node behind three blockers at once, and one behind a budget alone."""
    pods = [
        pod("web-1-a", "n0", labels={"app": "web"}, spec=STORED),
        k8s.pod("bare", node="n0"),
        pod("api-1", "n1", owner=k8s.replica_set("api"), labels={"app": "api"}),
    ]
    budgets = [k8s.pdb(name, 0, labels={"app": name}, healthy=1, desired=1, expected=1) for name in ("web", "api")]
    objects = cluster(WEB, OF_WEB, k8s.replica_set("api"), *pods, *budgets, *full("n2"), nodes=3)
    return AdvisedCase(objects)


def test_changes_that_free_a_node_only_together_are_advised_together(planner: PlannerClient) -> None:
    report = three_locks().advice(planner)
    assert {one.node_count for one in report.advice} == {1}
    assert all("n0" not in one.nodes for one in report.advice), "no single change frees it"
    assert report.together is not None
    assert report.together.nodes == ("n0", "n1")


def threes(case: AdvisedCase, planner: PlannerClient) -> int:
    """Return how many nodes go, at most, with the lines of up to three single levers, each carried out."""
    report = case.advice(planner)
    lines = {change.object: change for one in promises(report) for change in one.changes}
    most = 0
    for count in (1, 2, 3):
        for chosen in combinations(sorted(lines), count):
            advice = {"changes": [lines[name].document() for name in chosen]}
            going = AdvisedCase(*carried_out(case.objects, case.settings, advice)).plan(planner).scale_down.unneeded
            most = max(most, len(going))
    return most


@pytest.mark.ci
def test_no_three_of_the_lines_free_more_than_the_advice_to_change_several(planner: PlannerClient) -> None:
    case = three_locks()
    together = case.advice(planner).together
    assert together is not None
    assert threes(case, planner) <= together.node_count


def test_what_keeps_nodes_is_never_counted_as_what_is_freed(planner: PlannerClient) -> None:
    owner = k8s.replica_set("big", replicas=2)
    pods = [pod(f"big-{i}", f"n{i}", cpu="3500m", owner=owner, spec=STORED) for i in range(2)]
    report = AdvisedCase(cluster(owner, *pods), ALL).advice(planner)
    assert (report.base_nodes, report.advice, report.together) == ((), (), None), "neither pod has another place"


def test_advice_is_ranked_by_money_then_by_nodes(planner: PlannerClient) -> None:
    cheap = k8s.node_group("b", min_size=3, max_size=9, selector={"pool": "b"}, price=0.1)
    more = [cheap, *(k8s.node(f"b{i}", labels={"pool": "b"}) for i in range(3))]
    report = AdvisedCase([*cluster(WEB, OF_WEB, pod(spec=STORED), *full()), *more]).advice(planner)
    savings = [one.saving_per_hour or 0.0 for one in report.advice]
    assert savings == sorted(savings, reverse=True)
    assert report.advice[0].kind == "LOCAL_STORAGE"
    assert [one.node_count for one in report.advice if one.kind == "GROUP_MINIMUM"] == [3]


def test_a_change_that_only_lets_a_dearer_node_go_instead_is_advised_where_money_decides(
    planner: PlannerClient,
) -> None:
    """One pod of two has room elsewhere: without the change that of the cheap node, with it that of the dear one."""
    cheap = k8s.node_group("b", max_size=9, selector={"pool": "b"}, price=0.5)
    other = k8s.replica_set("other", replicas=1)
    owner = k8s.replica_set("stored", replicas=1)
    most = pod("stored-n1", "n1", cpu="2500m", owner=owner, spec=STORED)
    objects = cluster(WEB, OF_WEB, pod(cpu="1", spec=STORED), owner, most)
    objects += [cheap, k8s.node("b0", labels={"pool": "b"}), other, pod("other-b0", "b0", cpu="1", owner=other)]
    first, *_ = AdvisedCase(objects).advice(planner).advice
    assert (first.kind, first.nodes, first.staying) == ("LOCAL_STORAGE", ("n0",), ("b0",))
    assert (first.node_count, first.saving_per_hour) == (0, 1.5)
    assert first.sentence.endswith("evicted, other nodes could go that save 1,095 a month more.")
    fewer = replace(first, staying=("b0", "b1"))
    assert fewer.sentence.endswith("evicted, other nodes, 1 fewer, could go that save 1,095 a month more.")
    by_count = AdvisedCase(objects, {"scaleDown": {"objective": "COUNT"}}).advice(planner)
    assert (by_count.base_nodes, by_count.advice) == (("b0",), ())


def test_without_prices_nodes_are_counted(planner: PlannerClient) -> None:
    objects = cluster(WEB, OF_WEB, pod(spec=STORED), *full())
    del objects[0]["spec"]["price"]
    (first, *_) = AdvisedCase(objects).advice(planner).advice
    assert (first.node_count, first.saving_per_hour, first.saving_per_month) == (1, None, None)
    assert first.sentence == "If pods with local storage could be evicted, 1 more node could go."


def test_a_bound_on_plans_is_kept_and_what_is_left_out_is_counted(planner: PlannerClient) -> None:
    report = three_locks().advice(planner, most_plans=4)
    assert report.plan_count <= 4
    assert report.left_out_count > 0


def test_what_is_decided_after_scale_down_is_not_planned_again(
    planner: PlannerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def plan_delta(*arguments: Any) -> Any:
        asked.extend(arguments[-1].decisions)
        return planner_plan_delta(*arguments)

    planner_plan_delta = planner.plan_delta
    monkeypatch.setattr(planner, "plan_delta", plan_delta)
    assert AdvisedCase(three_locks().objects, {"replacement": {}, "podCosts": {}}).advice(planner).together
    assert {plan_pb2.Decision.Code.Name(one) for one in asked} == {"SCALE_DOWN"}


def test_equal_input_gives_equal_advice_and_an_empty_cluster_none(planner: PlannerClient) -> None:
    assert three_locks().advice(planner) == three_locks().advice(planner)
    empty: AdviceReport = AdvisedCase([k8s.node_group("a")]).advice(planner)
    assert (empty.advice, empty.together, empty.base_nodes) == ((), None, ())
