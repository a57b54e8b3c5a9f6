"""The simulated scheduler fits what the planner fits, and spreads and packs as kube-scheduler does."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import kubernetes as k8s
from tests.builders.examples import examples
from tests.builders.simulated_fit import feasible, fitting
from trimtab.clients.simulation import ClusterSimulation
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.clients.simulation.cluster.scheduler import KubeScheduler

Json = dict[str, Any]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def spread(key: str, skew: int, app: str) -> Json:
    selector = {"matchLabels": {"app": app}}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


def terms(key: str, app: str) -> Json:
    one = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [one]}


apps, keys = st.sampled_from("xy"), st.sampled_from([ZONE, HOST])
RULES = st.one_of(
    st.just({}),
    st.builds(lambda key, skew, app: {"spread": [spread(key, skew, app)]}, keys, st.integers(1, 2), apps),
    st.builds(lambda key, app: {"affinity": {"podAffinity": terms(key, app)}}, keys, apps),
    st.builds(lambda key, app: {"affinity": {"podAntiAffinity": terms(key, app)}}, keys, apps),
    st.just({"node_selector": {"pool": "a"}}),
    st.just({"host_ports": [80]}),
    st.just({"tolerations": [{"key": "team", "operator": "Exists"}]}),
)
NODES = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(["1", "2"]),
        "pods": st.sampled_from(["2", "110"]),
        "zone": st.sampled_from(["a", "b", ""]),
        "labels": st.sampled_from([{}, {"pool": "a"}]),
        "taints": st.sampled_from([[], ["team=x:NoSchedule"], ["soft=x:PreferNoSchedule"]]),
        "unschedulable": st.booleans(),
    }
)


@examples(60)
@given(
    nodes=st.lists(NODES, min_size=1, max_size=5),
    placed=st.lists(st.tuples(st.integers(0, 4), apps, RULES), max_size=6),
    rules=RULES,
    app=apps,
    cpu=st.sampled_from(["100m", "900m"]),
)
def test_a_pod_fits_where_the_planner_fits_it(
    nodes: list[Json], placed: list[tuple[int, str, Json]], rules: Json, app: str, cpu: str
) -> None:
    objects = [k8s.node(f"n{number}", **fields) for number, fields in enumerate(nodes)]
    for number, (at, label, of_pod) in enumerate(placed):
        name = f"n{at % len(nodes)}"
        objects.append(k8s.pod(f"p{number}", cpu="300m", node=name, labels={"app": label}, **of_pod))
    pod = k8s.pod("new", cpu=cpu, labels={"app": app}, **rules)
    assert feasible(objects, pod) == fitting(objects, pod)


def started(scoring: str, **fields: Any) -> ClusterSimulation:
    from trimtab.clients.simulation.scenario import Scenario

    groups = [{"name": zone, "zone": zone, "size": 2, "cpu": "4"} for zone in "abc"]
    document = {"nodeGroups": groups, "scheduler": {"scoring": scoring}, "decisions": ["scale-up"]}
    simulation = ClusterSimulation(Scenario.model_validate(document))
    simulation.add_workload("web", **{"replicas": 12, "cpu": "250m", **fields})
    return simulation.run_for("1m")


def by_node(simulation: ClusterSimulation) -> list[int]:
    counts = Counter(pod.node for pod in simulation.cluster.state.pods.values())
    return sorted(counts.values())


def test_replicas_spread_over_nodes_and_zones_by_default() -> None:
    assert by_node(started("LeastAllocated")) == [2, 2, 2, 2, 2, 2]


def test_most_allocated_packs_pods_that_have_no_preference() -> None:
    spread_to_nowhere = {
        "topologySpreadConstraints": [{**spread("none", 99, "web"), "whenUnsatisfiable": "ScheduleAnyway"}]
    }
    assert max(by_node(started("MostAllocated", pod={"spec": spread_to_nowhere}))) >= 11


def test_equals_are_drawn_by_the_seed() -> None:
    objects = [k8s.node(f"n{number}") for number in range(20)]

    def chosen(seed: int) -> list[str]:
        scheduler = KubeScheduler(seed)
        SimulatedCluster(objects, scheduler=scheduler)
        found = [scheduler.choose(SimulatedPod(k8s.pod("new"))) for _ in range(20)]
        return [info.name for info in found if info is not None]

    assert chosen(1) == chosen(1)
    assert chosen(1) != chosen(2)
    assert len(set(chosen(1))) > 5


@pytest.mark.parametrize("count", [1, 300, 600])
def test_columns_grow_with_the_cluster(count: int) -> None:
    objects = [k8s.node(f"n{number}", labels={"last": str(number == count - 1).lower()}) for number in range(count)]
    assert feasible(objects, k8s.pod("new", node_selector={"last": "true"})) == [f"n{count - 1}"]
