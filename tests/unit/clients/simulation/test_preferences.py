"""Preferred affinities score as in kube-scheduler: sums of weights, normalized, beside the other scores."""

from typing import Any

import pytest

from tests.builders import kubernetes as k8s
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.clients.simulation.cluster.scheduler import KubeScheduler

Json = dict[str, Any]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def chosen(objects: list[Json], pod: Json) -> str:
    """The node for a pod, which is the same for each of ten seeds."""
    names = set()
    for seed in range(10):
        scheduler = KubeScheduler(seed)
        SimulatedCluster(objects, scheduler=scheduler)
        info = scheduler.choose(SimulatedPod(pod))
        assert info is not None
        names.add(info.name)
    (name,) = names
    return name


def prefers(kind: str, key: str, app: str, weight: int = 100) -> Json:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": term}]}}


def likes(*pools: tuple[str, int]) -> Json:
    terms = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": "pool", "operator": "In", "values": [pool]}]}}
        for pool, weight in pools
    ]
    return {"nodeAffinity": {PREFERRED: terms}}


THREE = [
    k8s.node("n1", zone="a", labels={"pool": "x"}),
    k8s.node("n2", zone="b", labels={"pool": "y"}),
    k8s.node("n3", zone="b", labels={"pool": "z"}),
]


def test_the_node_with_most_weight_of_preferred_node_affinity_is_chosen() -> None:
    assert chosen(THREE, k8s.pod("new", affinity=likes(("x", 1), ("y", 3), ("z", 2)))) == "n2"


def test_preferred_node_affinity_counts_twice_as_much_as_an_even_load() -> None:
    """An empty node has fewer than 200 points more for its load, the preferred one 200 for the affinity."""
    loaded = [*THREE, k8s.pod("p", cpu="3", memory="12Gi", node="n2")]
    assert chosen(loaded, k8s.pod("new", affinity=likes(("y", 1)))) == "n2"


def test_a_pod_is_drawn_to_the_zone_of_the_pods_that_it_prefers() -> None:
    objects = [*THREE, k8s.pod("p", cpu="10m", node="n2", labels={"app": "cache"})]
    assert chosen(objects, k8s.pod("new", affinity=prefers("podAffinity", HOST, "cache"))) == "n2"
    assert chosen(objects, k8s.pod("new", affinity=prefers("podAntiAffinity", ZONE, "cache"))) == "n1"


def test_pods_on_nodes_draw_and_repel_new_ones_by_their_own_preferences() -> None:
    drawn = k8s.pod("p", cpu="10m", node="n3", affinity=prefers("podAffinity", HOST, "web"))
    assert chosen([*THREE, drawn], k8s.pod("new", labels={"app": "web"})) == "n3"
    repelled = k8s.pod("p", cpu="10m", node="n3", affinity=prefers("podAntiAffinity", ZONE, "web"))
    assert chosen([*THREE, repelled], k8s.pod("new", labels={"app": "web"})) == "n1"


def test_a_required_affinity_of_a_pod_on_a_node_draws_the_pods_that_it_names() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
    required = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    objects = [*THREE, k8s.pod("p", cpu="10m", node="n2", labels={"app": "web"}, affinity=required)]
    assert chosen(objects, k8s.pod("new", labels={"app": "web"})) == "n2"


def test_weights_of_several_preferences_add_up() -> None:
    objects = [
        *THREE,
        k8s.pod("p", cpu="10m", node="n1", labels={"app": "a"}),
        k8s.pod("q", cpu="10m", node="n2", labels={"app": "b"}),
        k8s.pod("r", cpu="10m", node="n2", labels={"app": "b"}),
    ]
    both = prefers("podAffinity", HOST, "a", 3)["podAffinity"][PREFERRED]
    both += prefers("podAffinity", HOST, "b", 2)["podAffinity"][PREFERRED]
    assert chosen(objects, k8s.pod("new", affinity={"podAffinity": {PREFERRED: both}})) == "n2"


@pytest.mark.parametrize("app", ["web", "other"])
def test_the_preferences_of_a_pod_that_has_gone_count_no_more(app: str) -> None:
    scheduler = KubeScheduler()
    drawing = k8s.pod("p", cpu="10m", node="n3", affinity=prefers("podAffinity", HOST, "web"))
    cluster = SimulatedCluster([*THREE, drawing], scheduler=scheduler)
    with cluster.transaction() as state:
        state.drop_pod(state.pods["default", "p"])
    pod = SimulatedPod(k8s.pod("new", labels={"app": app}))
    names = {info.name for _ in range(40) if (info := scheduler.choose(pod)) is not None}
    assert names == {"n1", "n2", "n3"}


def test_a_soft_taint_and_a_soft_spread_keep_a_pod_away_if_there_is_another_node() -> None:
    tainted = [k8s.node("n1", taints=["spot=yes:PreferNoSchedule"]), k8s.node("n2")]
    assert chosen(tainted, k8s.pod("new")) == "n2"
    soft = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
    constraint = {**soft, "labelSelector": {"matchLabels": {"app": "web"}}}
    objects = [*THREE[:2], k8s.pod("p", cpu="10m", node="n1", labels={"app": "web"})]
    assert chosen(objects, k8s.pod("new", labels={"app": "web"}, spread=[constraint])) == "n2"
