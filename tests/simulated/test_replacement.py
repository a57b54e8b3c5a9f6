"""A simulated cluster carries out the waves that a planner has found, with and without stock-outs: a hand-made plan in
place of the planner's own decision.
"""

from typing import Any

import pytest

from trimtab.actuator.tracker.admission import digest_of
from trimtab.clients.in_process_planner import InProcessLink
from trimtab.clients.simulation.result import result_of
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.simulation import ClusterSimulation, SimulationRunOptions
from trimtab.places import places_of
from trimtab.v1 import plan_pb2, planner_pb2, reason_pb2

REPLACEMENT = plan_pb2.Decision.REPLACEMENT
GROUPS = {"large": ("8", 0.4, 3), "small": ("3500m", 0.2, 0), "spare": ("3500m", 0.25, 0)}


class PlanningLink:
    """A planner that finds, after a time, that the large nodes can be replaced by two small ones."""

    def __init__(self, begin_s: float) -> None:
        self._link = InProcessLink()
        self._begin_s = begin_s
        self.simulation: ClusterSimulation | None = None
        self.states: list[plan_pb2.ReplacementState] = []

    def info(self) -> planner_pb2.GetPlannerInfoResponse:
        return planner_pb2.GetPlannerInfoResponse(decisions=[plan_pb2.Decision.SCALE_UP, REPLACEMENT])

    def close(self) -> None:
        self._link.close()

    def send(self, request: plan_pb2.PlanRequest, payload: bytes) -> plan_pb2.PlanResponse:
        asked = REPLACEMENT in request.decisions
        others = [one for one in request.decisions if one != REPLACEMENT]
        request.decisions[:] = others or [plan_pb2.Decision.SCALE_UP]
        if request.HasField("state") and request.state.HasField("replacement"):
            self.states.append(plan_pb2.ReplacementState.FromString(request.state.replacement.SerializeToString()))
        answer = self._link.send(request, payload)
        assert self.simulation is not None
        if asked and self.simulation.now_s - self.simulation.begin_s >= self._begin_s:
            self._plan(self.simulation, answer.replacement)
        return answer

    def _plan(self, simulation: ClusterSimulation, decision: plan_pb2.ReplacementDecision) -> None:
        state = simulation.cluster.state
        large = sorted(name for name, one in state.instances.items() if one.group == "large" and name in state.nodes)
        if len(large) < 3 or self.states:
            return
        decision.result = reason_pb2.ReplacementResult.REPLACEMENT_PLANNED
        wave = decision.waves.add(saving_per_hour=0.8)
        for number in range(2):
            wave.new_nodes.add(name=f"small#{number}", node_group="small", price_per_hour=0.2, alternatives=["spare"])
        places: list[tuple[str, str, str]] = []
        for name in large:
            one = wave.leaving.add(node=name, node_group="large", price_per_hour=0.4)
            pods = [pod for pod in state.pods.values() if pod.node == name and pod.active]
            one.assumption.pods_to_move_count = len(pods)
            one.assumption.pods_to_move_digest = digest_of(pod.uid for pod in pods)
            for pod in pods:
                places.append(("/".join(pod.key), name, f"small#{len(places) // 3}"))
        wave.places.CopyFrom(places_of(places))
        wave.evicted_pod_count = len(places)


def simulated(decisions: tuple[str, ...], **outages: Any) -> tuple[ClusterSimulation, PlanningLink]:
    """Run an hour of a cluster with three large nodes and six pods, with and without the decision."""
    groups = [
        {"name": name, "cpu": cpu, "memory": "16Gi", "price": price, "size": size, "outages": outages.get(name, [])}
        for name, (cpu, price, size) in GROUPS.items()
    ]
    workload = {"name": "web", "replicas": 6, "pod": {"cpu": "1"}, "budget": {"maxUnavailable": 1}}
    scenario = Scenario.model_validate(
        {"duration": "1h", "decisions": list(decisions), "nodeGroups": groups, "workloads": [workload]}
    )
    link = PlanningLink(600.0)
    simulation = link.simulation = ClusterSimulation(scenario, options=SimulationRunOptions(link=link))
    return simulation.run(), link


def sizes(simulation: ClusterSimulation) -> dict[str, int]:
    return {group: simulation.node_count(group) for group in GROUPS if simulation.node_count(group)}


def test_waves_are_carried_out_and_the_result_says_how_they_ended() -> None:
    simulation, _ = simulated(("scale-up", "replacement"))
    assert (sizes(simulation), simulation.pending, simulation.pod_count("web")) == ({"small": 2}, [], 6)
    (ended,) = result_of(simulation, "with")["replacements"]
    assert (ended["stage"], ended["reason"], len(ended["gone"])) == ("DONE", "UNSPECIFIED", 3)
    assert ended["achievedSavingPerHour"] == pytest.approx(0.8)
    (entry,) = [one for one in simulation.decisions.entries if one["kind"] == "replacement"]
    assert entry["text"] == "3 nodes leave, new nodes: 2 of small; 6 pods move"


def test_a_policy_without_the_decision_leaves_the_cluster_as_it_is() -> None:
    simulation, _ = simulated(("scale-up",))
    assert sizes(simulation) == {"large": 3}
    assert result_of(simulation, "without")["replacements"] == []
    cheaper, _ = simulated(("scale-up", "replacement"))
    assert cheaper.summary()["money"] < simulation.summary()["money"]


def test_a_group_out_of_stock_is_followed_by_an_alternative_and_the_planner_is_told() -> None:
    simulation, link = simulated(("scale-up", "replacement"), small=[{"from": "0s", "to": "1h"}])
    assert sizes(simulation) == {"spare": 2}
    (ended,) = simulation.decisions.replacements
    assert ended["achievedSavingPerHour"] == pytest.approx(0.7)
    assert "small" in link.states[0].strings
    assert link.states[0].HasField("avoided_groups")
    assert link.states[0].HasField("paid_back")


def test_with_every_group_out_of_stock_everything_is_as_before() -> None:
    outage = [{"from": "0s", "to": "1h"}]
    simulation, _ = simulated(("scale-up", "replacement"), small=outage, spare=outage)
    assert (sizes(simulation), simulation.pending, simulation.pod_count("web")) == ({"large": 3}, [], 6)
    assert {one["reason"] for one in simulation.decisions.replacements} == {"NEW_NODES_MISSING"}
    assert simulation.summary()["evictions"] == 0


def planned(decisions: tuple[str, ...], settings: plan_pb2.PlanSettings | None = None) -> ClusterSimulation:
    """Run two hours of the same cluster with the planner's own decision; a large node costs as much as three small."""
    groups = [
        {"name": name, "cpu": cpu, "memory": "16Gi", "price": 0.6 if name == "large" else price, "size": size}
        for name, (cpu, price, size) in GROUPS.items()
    ]
    workload = {"name": "web", "replicas": 6, "pod": {"cpu": "1"}, "budget": {"maxUnavailable": 1}}
    document = {"duration": "2h", "decisions": list(decisions), "nodeGroups": groups, "workloads": [workload]}
    return ClusterSimulation(Scenario.model_validate(document), settings=settings).run()


@pytest.mark.ci
def test_a_policy_with_replacement_costs_less_than_one_without() -> None:
    decisions = ("scale-up", "scale-down", "replacement")
    switched_off = plan_pb2.PlanSettings()
    switched_off.replacement.enabled = False
    without, with_it = planned(decisions, switched_off), planned(decisions)
    assert (sizes(without), without.decisions.replacements) == ({"large": 1}, [])
    assert sizes(with_it) == {"small": 2}
    assert (with_it.pending, with_it.pod_count("web")) == ([], 6)
    assert {one["stage"] for one in with_it.decisions.replacements} == {"DONE"}
    assert len(with_it.decisions.replacements) == 1, "what has been replaced is not replaced again"
