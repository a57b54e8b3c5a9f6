"""Scale-up during a long drain: the drained node's room and its place in the group do not count.

Source: the Zalando fork of CA, which continues scale-down for as long as budgets delay it; in our own words, planner
and actuator on virtual time.
"""

from trimtab.clients.simulation.simulation import ClusterSimulation
from trimtab.v1 import plan_pb2

DELETION = "ToBeDeletedByClusterAutoscaler"


def draining(made: ClusterSimulation) -> list[str]:
    """Return the nodes that are marked for deletion."""
    nodes = made.cluster.state.nodes
    return [
        name
        for name, one in nodes.items()
        if any(taint["key"] == DELETION for taint in one.node["spec"].get("taints") or ())
    ]


def grown(made: ClusterSimulation) -> list[tuple[str, int]]:
    """Return the scale-ups so far, in order."""
    return [(entry["group"], entry["count"]) for entry in made.decisions.entries if entry["kind"] == "scale-up"]


def in_a_long_drain() -> tuple[ClusterSimulation, str]:
    """Return a simulation with a node whose pods leave one by one, each once the previous is ready elsewhere."""
    settings = plan_pb2.PlanSettings()
    settings.scale_down.delay_after_add.SetInParent()
    settings.scale_down.unneeded_time.seconds = 300
    made = ClusterSimulation(settings=settings)
    made.add_group("a", size=2, cpu="4", memory="16Gi")
    made.add_workload("web", replicas=8, cpu="400m", start="120s", budget={"max_unavailable": 1})
    made.run_for("350s")
    (leaving,) = draining(made)
    assert made.pod_count("web", node=leaving) == 3
    return made, leaving


def test_a_group_grows_at_once_while_one_of_its_nodes_is_drained() -> None:
    made, leaving = in_a_long_drain()
    made.add_workload("burst", replicas=2, cpu="3")
    made.run_for("20s")
    assert grown(made) == [("a", 2)]
    made.run_for("70s")
    assert (made.pending, made.pod_count("burst")) == ([], 2)
    assert draining(made) == [leaving], "the new nodes serve before the drain is over"
    assert made.pod_count("burst", node=leaving) == 0
    made.run_for("20m")
    assert (leaving in made.cluster.state.nodes, made.pending, grown(made)) == (False, [], [("a", 2)])


def test_what_a_drain_still_has_to_move_gets_new_nodes_when_other_pods_take_its_place() -> None:
    made, leaving = in_a_long_drain()
    (staying,) = made.cluster.state.nodes.keys() - {leaving}
    made.add_workload("burst", replicas=2, cpu="1")
    made.run_for("20s")
    assert made.pod_count("burst", node=staying) == 2
    assert made.pod_count("web", node=leaving) == 3, "nothing is pending yet"
    assert grown(made) == [("a", 1)]
    made.run_for("20m")
    assert (leaving in made.cluster.state.nodes, made.pending, grown(made)) == (False, [], [("a", 1)])
    assert made.pod_count("web") == 8
