"""Waves of scale-down in the simulator: after a burst, disruption budgets allow only some nodes to go at once.

Nodes at the end and evictions are those of this seed.
"""

from functools import cache

import pytest

from tests.builders.after_burst import after_burst, patient
from trimtab.clients.cli.simulate.command import built_in
from trimtab.clients.simulation import ClusterSimulation
from trimtab.common.kubernetes.names import SOFT_TAINT_KEY
from trimtab.v1 import plan_pb2

SMALL = after_burst(10, disruptions=3, nodes=9, duration="20m")


def simulated(max_waves: int = 10) -> ClusterSimulation:
    settings = patient()
    settings.scale_down.max_waves = max_waves
    return ClusterSimulation(SMALL, settings=settings)


@cache
def ended(max_waves: int = 10) -> ClusterSimulation:
    """Return the simulation at its end, for all tests of the module."""
    return simulated(max_waves).run()


def upstreams_policy() -> plan_pb2.PlanSettings:
    """Return the policy with the timers of `patient`."""
    settings = built_in("upstream")
    settings.scale_down.unneeded_time.CopyFrom(patient().scale_down.unneeded_time)
    return settings


def soft_tainted(simulation: ClusterSimulation) -> set[str]:
    nodes = simulation.cluster.state.nodes
    return {
        name
        for name, one in nodes.items()
        if any(t["key"] == SOFT_TAINT_KEY for t in one.node["spec"].get("taints", ()))
    }


@pytest.mark.ci
def test_more_nodes_go_than_with_one_wave_because_the_plan_lasts_while_its_own_moves_fill_nodes() -> None:
    one, all_waves = ended(1), ended()
    assert (one.node_count(), all_waves.node_count()) == (15, 11)
    assert not all_waves.pending


@pytest.mark.ci
def test_no_more_nodes_stay_than_with_upstreams_policy_sooner_and_for_no_more_evictions_of_a_node() -> None:
    upstream, ours = ClusterSimulation(SMALL, settings=upstreams_policy()).run(), ended()
    assert ours.node_count() <= upstream.node_count()
    its, figures = upstream.summary(), ours.summary()
    assert figures["nodeHours"] < its["nodeHours"]
    assert figures["evictions"] / figures["nodesRemoved"] <= its["evictions"] / its["nodesRemoved"]


def test_all_waves_get_the_soft_taint_at_once_and_lose_it_once_nothing_is_planned() -> None:
    simulation = simulated().run_for(170)
    assert (simulation.node_count(), len(soft_tainted(simulation))) == (27, 16), "none has gone yet"
    assert (ended().node_count(), len(soft_tainted(ended()))) == (11, 0)


@pytest.mark.nightly
def test_the_large_cluster_ends_as_the_page_says() -> None:
    """The Cluster Autoscaler itself ended with 54 nodes and 7.4 evictions for each node that went."""
    one_wave = patient()
    one_wave.scale_down.max_waves = 1
    found = []
    for settings in (built_in("upstream"), one_wave, patient()):
        simulation = ClusterSimulation(after_burst(duration="60m"), settings=settings).run()
        figures = simulation.summary()
        found.append((simulation.node_count(), round(figures["evictions"] / figures["nodesRemoved"], 1)))
    assert found == [(54, 7.7), (65, 6.0), (44, 6.1)]
