"""Incremental counts equal a count over all pods, whatever happens to them."""

from collections.abc import Mapping

from hypothesis import example, given
from hypothesis import strategies as st

from tests.builders.actuator import place
from tests.builders.examples import examples
from tests.builders.kubernetes import Json, node, node_group, pdb, pods_of, replica_set, stateful_set
from tests.builders.simulations import Simulation
from trimtab.actuator.cloud.provider import CloudError, InstanceState
from trimtab.actuator.kube.cluster import ClusterError
from trimtab.clients.simulation.cluster.disruption import BudgetStatus, covers
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.clients.simulation.cluster.tallies import OwnerTally

WEB, DB = ("web", 4), ("db", 2)


def cluster() -> Simulation:
    """Return three nodes with replicas of two controllers and budgets over one, both, and pods without controller."""
    web, db = replica_set(WEB[0], WEB[1]), stateful_set(DB[0], DB[1])
    web["spec"]["template"] = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main"}]}}
    pods = [*pods_of(web, WEB[1], cpu="1"), *pods_of(db, DB[1], cpu="1"), *pods_of(web, 1, cpu="1")]
    pods[-1]["metadata"] |= {"name": "alone", "uid": "alone", "ownerReferences": [], "labels": {"app": "web"}}
    pods[0]["status"] = {"phase": "Succeeded"}
    for number, item in enumerate(pods):
        item["metadata"].setdefault("labels", {})["all"] = "yes"
        if number:
            place(item, f"n{number % 3}")
    budgets = [
        pdb("share", labels={"all": "yes"}, max_unavailable="30%"),
        pdb("number", labels={"app": "web"}, min_available=2),
        pdb("part", labels={"all": "yes"}, min_available="50%"),
    ]
    nodes = [node(f"n{number}", cpu="4", labels={"pool": "a"}) for number in range(3)]
    return Simulation(node_group("a", selector={"pool": "a"}), *nodes, web, db, *budgets, *pods)


def check(simulation: Simulation) -> None:
    state = simulation.cluster.state
    for uid in {pod.owner_uid for pod in state.pods.values()} | set(state.owners):
        pods = [pod for pod in state.pods.values() if pod.owner_uid == uid]
        active = [pod for pod in pods if pod.active]
        assert state.tallies.of(uid) == OwnerTally(len(active), len([pod for pod in active if pod.ready]))
    for key, item in state.budgets.items.items():
        selected = [pod for pod in state.pods.values() if pod.key[0] == key[0] and covers(item, pod)]
        for pod in selected[:1]:
            # A status is kept until a pod changes, even if a controller's size changes meanwhile.
            state.budgets.pod_changed(pod)
        assert state.budgets.status(key) == counted(item, selected, state.owners)


def counted(item: Json, pods: list[SimulatedPod], controllers: Mapping[str, Json]) -> BudgetStatus:
    """Return the status of a budget as the disruption controller counts it, pod by pod."""
    alive = [pod for pod in pods if pod.phase not in ("Succeeded", "Failed")]
    owners = {str(pod.owner.get("uid") or pod.uid) for pod in alive}
    of_owner = {one: [pod for pod in alive if one in (pod.owner.get("uid"), pod.uid)] for one in owners}
    wanted = sum(controllers[one]["spec"]["replicas"] if one in controllers else len(of_owner[one]) for one in owners)
    spec = item["spec"]
    if "maxUnavailable" in spec:
        expected, desired = wanted, max(0, wanted - -(-30 * wanted // 100))
    elif spec["minAvailable"] == "50%":
        expected, desired = wanted, -(-50 * wanted // 100)
    else:
        expected, desired = len(alive), 2
    healthy = len([pod for pod in alive if pod.ready and not pod.terminating])
    return BudgetStatus(max(0, healthy - desired) if expected else 0, healthy, desired, expected)


STEPS = st.tuples(st.sampled_from(["evict", "wait", "lose", "delete", "grow", "scale", "end"]), st.integers(0, 20))


def do(simulation: Simulation, what: str, number: int) -> None:
    """Do an action, unless the cluster refuses it."""
    cluster, names = simulation.cluster, sorted(simulation.cluster.state.nodes)
    pods = [pod for _, pod in sorted(cluster.state.pods.items())]
    try:
        if what == "wait":
            simulation.time.now_s += number
            with cluster.transaction():
                pass
        elif what == "grow":
            size = simulation.groups()["a"][0]
            simulation.cloud.set_size("a", size, size + 1 + number % 2, f"{simulation.time.now_s}/{number}/{size}")
        elif what == "scale":
            cluster.scale("default", WEB[0], number % 7)
        elif what == "evict" and pods:
            cluster.evict(pods[number % len(pods)].view(), None)
        elif what == "end" and pods:
            with cluster.transaction() as state:
                state.drop_pod(pods[number % len(pods)])
        elif what == "lose" and names:
            name = names[number % len(names)]
            cluster.delete_node(name, cluster.get_node(name).uid)
        elif what == "delete" and names:
            name = names[number % len(names)]
            simulation.cloud.delete_instances("a", [cluster.get_node(name).provider_id])
    except (ClusterError, CloudError):
        pass


@examples(60)
@given(st.lists(STEPS, max_size=25))
def test_tallies_are_what_a_count_over_all_pods_gives(steps: list[tuple[str, int]]) -> None:
    simulation = cluster()
    check(simulation)
    for what, number in steps:
        do(simulation, what, number)
        check(simulation)


@examples(40)
@given(st.lists(STEPS, max_size=25))
@example([("delete", 0), ("wait", 20), ("grow", 1), ("wait", 20), ("lose", 0)])
def test_nodes_and_machines_are_listed_as_they_are(steps: list[tuple[str, int]]) -> None:
    """Lists kept while nothing changes equal newly read ones."""
    simulation = cluster()
    for what, number in steps:
        do(simulation, what, number)
        state = simulation.cluster.state
        assert [one.name for one in simulation.cluster.list_nodes()] == sorted(state.nodes)
        assert simulation.cluster.list_nodes() == [simulation.cluster.get_node(name) for name in sorted(state.nodes)]
        machines = sorted(one.provider_id for one in state.instances.values())
        assert [one.id for one in simulation.cloud.instances(["a"])["a"]] == machines
        going = {one.provider_id for one in state.instances.values() if one.gone_due_ms}
        listed = simulation.cloud.instances(["a"])["a"]
        assert {one.id for one in listed if one.state is InstanceState.DELETING} == going
        assert simulation.groups()["a"][1] == len(machines)
