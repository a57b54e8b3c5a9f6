"""Simulations do what a cluster with an autoscaler does, in virtual time, and the same each time."""

from functools import cache
from typing import Any

import pytest
import structlog

from tests.builders.simulations import small
from trimtab.clients.in_process_planner import InProcessLink
from trimtab.clients.simulation import ClusterSimulation
from trimtab.clients.simulation.objects import GROUP_LABEL
from trimtab.clients.simulation.result import encoded, result_of
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.simulation import SimulationRunOptions
from trimtab.clients.simulation.traces.arrivals import Arrival
from trimtab.v1 import plan_pb2

HOUR_S = 3600.0


def test_a_group_grows_for_pods_that_wait_and_shrinks_once_they_are_gone() -> None:
    simulation = ClusterSimulation(seed=1)
    simulation.add_group("general", cpu="4", memory="16Gi", price=0.2, max_size=20)
    simulation.add_workload("web", replicas=30, cpu="500m", memory="1Gi")
    simulation.run_for("5m")
    assert simulation.pending == []
    assert simulation.node_count("general") == 4
    simulation.scale("web", 6)
    simulation.run_for("40m")
    assert simulation.node_count() == 1
    assert simulation.pod_count("web") == 6


def test_pods_wait_as_long_as_machines_take_to_start() -> None:
    simulation = ClusterSimulation()
    simulation.add_group("slow", start="3m")
    simulation.add_workload("web", replicas=1)
    simulation.run_for("179s")
    assert simulation.pending
    simulation.run_for("2s")
    assert simulation.pending == []
    assert simulation.summary()["timeToScheduleS"]["max"] == 180.0


def test_in_an_outage_another_group_grows() -> None:
    simulation = ClusterSimulation()
    simulation.add_group("cheap", price=0.1, cpu="4", outages=[{"from": 0, "to": "1h"}])
    simulation.add_group("dear", price=0.5, cpu="4")
    simulation.add_workload("web", replicas=4, cpu="1500m", memory="1Gi")
    simulation.run_for("20m")
    assert simulation.pending == []
    assert (simulation.node_count("cheap"), simulation.node_count("dear")) == (0, 2)


def test_machines_that_never_become_nodes_are_replaced() -> None:
    simulation = ClusterSimulation(seed=2)
    simulation.add_group("shaky", start_failure_rate=0.5, cpu="1", max_size=50)
    simulation.add_workload("web", replicas=8, cpu="800m")
    simulation.run_for("30m")
    assert simulation.pending == []
    assert simulation.summary()["startsFailed"] > 0
    assert simulation.node_count("shaky") == 8


def test_a_budget_holds_in_every_drain() -> None:
    simulation = ClusterSimulation()
    simulation.add_group("general", cpu="4", size=4, max_size=4)
    simulation.add_workload("web", replicas=4, cpu="500m", start="60s", budget={"min_available": 3})
    least = []
    for _ in range(60):
        simulation.run_for("1m")
        ready = [pod for pod in simulation.cluster.state.pods.values() if pod.ready and not pod.terminating]
        least.append(len(ready))
    assert simulation.node_count() < 4
    assert min(least[2:]) >= 3


def test_jobs_end_after_their_lifetime_and_leave_nothing_behind() -> None:
    scenario = Scenario.model_validate({"duration": "1h", "trace": {"file": "-"}, "nodeGroups": [{"name": "g"}]})
    simulation = ClusterSimulation(
        scenario, [Arrival(60.0, 3, "500m", "1Gi", 600.0), Arrival(90.0, 1, "1", "1Gi", None)]
    )
    simulation.run_for("10m")
    assert simulation.pod_count() == 4
    simulation.run_for("10m")
    assert simulation.pod_count() == 1
    assert len(simulation.cluster.state.owners) == 1


def test_an_evicted_pod_of_a_job_begins_its_lifetime_again() -> None:
    scenario = Scenario.model_validate(
        {"duration": "1h", "trace": {"file": "-"}, "nodeGroups": [{"name": "g", "size": 1}]}
    )
    simulation = ClusterSimulation(scenario, [Arrival(0.0, 1, "500m", "1Gi", 600.0)])
    simulation.run_for("5m")
    (view,) = [pod.view() for pod in simulation.cluster.state.pods.values()]
    simulation.cluster.evict(view, None)
    simulation.run_for("9m")
    assert simulation.pod_count() == 1
    simulation.run_for("3m")
    assert simulation.pod_count() == 0


def test_the_same_seed_gives_the_same_bytes_and_another_one_others() -> None:
    drawn = small(reclaims=[{"nodeGroups": ["a"], "meanTime": "4m"}], duration="8m")
    first, second, other = (
        encoded(result_of(ClusterSimulation(drawn, seed=seed).run(), "defaults")) for seed in (5, 5, 6)
    )
    assert first == second
    assert first != other


def in_use(web_milli: int, threshold: float = 0.5) -> tuple[Scenario, plan_pb2.PlanSettings]:
    """Four nodes that a service uses evenly, three of its pods on each, and jobs that come and go between them."""
    groups = [{"name": "general", "size": 4, "maxSize": 6, "cpu": "4", "memory": "16Gi", "price": 0.2}]
    web = {"name": "web", "replicas": 12, "pod": {"cpu": f"{web_milli}m"}, "budget": {"maxUnavailable": 1}}
    etl = {"name": "etl", "perHour": 30, "pods": 2, "lifetime": "7m", "pod": {"cpu": "300m", "start": "12s"}}
    document = {"seed": 3, "duration": "1h", "nodeGroups": groups, "workloads": [web], "batches": [etl]}
    settings = plan_pb2.PlanSettings()
    settings.scale_down.utilization_threshold = threshold
    return Scenario.model_validate(document), settings


def packed(*, free: int = 0, db: int = 0) -> tuple[Scenario, plan_pb2.PlanSettings]:
    """Three nodes in use, where jobs come and go; others that are free, or have a database each that uses them little
    and fits nowhere else. No node is unneeded for long enough to go.
    """
    sizes = {"general": (3, "4"), "free": (free, "4"), "large": (db, "16")}
    groups = [{"name": name, "size": size, "maxSize": 6, "cpu": cpu} for name, (size, cpu) in sizes.items()]
    only = {"spec": {"nodeSelector": {GROUP_LABEL: "general"}}}
    workloads: list[dict[str, Any]] = [{"name": "web", "replicas": 11, "pod": {"cpu": "1", **only}}]
    if db:
        workloads.append({"name": "db", "replicas": db, "pod": {"cpu": "5"}})
    etl = {"name": "etl", "perHour": 30, "pods": 2, "lifetime": "3m", "pod": {"cpu": "100m", "start": "12s", **only}}
    document = {"seed": 4, "duration": "1h", "nodeGroups": groups, "workloads": workloads, "batches": [etl]}
    settings = plan_pb2.PlanSettings()
    settings.scale_down.unneeded_time.FromSeconds(4 * 3600)
    settings.scale_down.unremovable_node_recheck_timeout.FromSeconds(1800)
    return Scenario.model_validate(document), settings


def with_slack(rate: float) -> plan_pb2.PlanSettings:
    settings = plan_pb2.PlanSettings()
    settings.slack.extra_capacity_min_rate = rate
    return settings


NIGHTLY = pytest.mark.nightly


@pytest.mark.ci
@pytest.mark.parametrize(
    ("scenario", "settings"),
    [
        pytest.param(small(), None, id="much happens", marks=NIGHTLY),
        pytest.param(small(seed=7, duration="1h"), None, id="much happens, otherwise"),
        pytest.param(*in_use(800), id="every node is in use", marks=NIGHTLY),
        pytest.param(*in_use(600), id="every node is near the threshold", marks=NIGHTLY),
        pytest.param(*in_use(800, 0.7), id="every node is near another threshold", marks=NIGHTLY),
        pytest.param(*packed(free=2), id="nodes are in use or empty", marks=NIGHTLY),
        pytest.param(*packed(db=1), id="nodes are in use or cannot go", marks=NIGHTLY),
        pytest.param(
            small(decisions=["scale-up", "scale-down", "pod-costs"], duration="40m"),
            None,
            id="pod costs",
            marks=NIGHTLY,
        ),
        pytest.param(
            small(decisions=["slack", "scale-up", "scale-down"], duration="40m"),
            with_slack(0.3),
            id="slack",
            marks=NIGHTLY,
        ),
    ],
)
def test_rounds_that_are_left_out_would_have_changed_nothing(
    scenario: Scenario, settings: plan_pb2.PlanSettings | None
) -> None:
    def run(skip_idle: bool) -> dict[str, Any]:
        options = SimulationRunOptions(skip_idle=skip_idle)
        return result_of(ClusterSimulation(scenario, settings=settings, options=options).run(), "defaults")

    skipping, every = run(True), run(False)
    assert skipping["summary"].pop("rounds") < every["summary"].pop("rounds")
    assert skipping == every


def test_pods_that_come_and_go_on_nodes_that_stay_in_use_cause_no_rounds() -> None:
    chosen = (in_use(800), packed(free=2), packed(db=1), in_use(600))
    *full, near = (ClusterSimulation(one, settings=settings).run() for one, settings in chosen)
    assert all(one.summary()["podsScheduled"] > 50 for one in full)
    assert [one for one in full if one.round_count >= near.round_count / 2] == []


def test_pods_that_become_ready_cause_a_round_only_where_a_budget_counts_them() -> None:
    def rounds(**budget: Any) -> int:
        simulation = ClusterSimulation()
        simulation.add_group("general", size=2, min_size=2)
        simulation.add_workload("web", replicas=4, start="95s", **budget)
        simulation.run_for("90s")
        before = simulation.round_count
        simulation.run_for("20s")
        assert all(pod.ready for pod in simulation.cluster.state.pods.values())
        return simulation.round_count - before

    assert (rounds(), rounds(budget={"min_available": 3})) == (0, 1)


@cache
def watched() -> tuple[ClusterSimulation, list[tuple[bool, bool]]]:
    """Return the end of a simulation, and of each round whether it asked for growth and whether a pod waited."""
    asked: list[tuple[bool, bool]] = []

    class Watching(InProcessLink):
        def send(self, request: plan_pb2.PlanRequest, payload: bytes) -> plan_pb2.PlanResponse:
            asked.append((plan_pb2.Decision.SCALE_UP in request.decisions, bool(simulation.pending)))
            return super().send(request, payload)

    simulation = ClusterSimulation(small(), options=SimulationRunOptions(link=Watching()))
    return simulation.run(), asked


def test_growth_is_not_requested_where_nothing_waits() -> None:
    _, asked = watched()
    assert all(is_asked for is_asked, waits in asked if waits)
    assert 0.2 < sum(is_asked for is_asked, _ in asked) / len(asked) < 0.9


def test_money_counts_each_machine_from_its_request_to_its_end() -> None:
    simulation = ClusterSimulation()
    simulation.add_group("fixed", min_size=3, max_size=3, price=0.5)
    simulation.run_for("2h")
    assert simulation.summary()["nodeHours"] == 6.0
    assert simulation.summary()["money"] == 3.0


def test_a_node_that_came_too_late_counts_as_added_for_nothing() -> None:
    simulation = ClusterSimulation()
    simulation.add_group("slow", start="10m")
    simulation.add_workload("web", replicas=1)
    simulation.run_for("1m")
    simulation.scale("web", 0)
    simulation.run_for("1h")
    assert simulation.node_count() == 0
    assert simulation.summary()["addedForNothing"] == 1


def test_what_is_not_there_cannot_be_scaled_and_nothing_is_there_twice() -> None:
    simulation = ClusterSimulation()
    simulation.add_group("general")
    with pytest.raises(ValueError, match="general is there already"):
        simulation.add_group("general")
    with pytest.raises(KeyError, match="default/web"):
        simulation.scale("web", 3)


def test_drains_are_reported_from_taint_to_end_with_delays_by_budgets() -> None:
    simulation = ClusterSimulation()
    simulation.add_group("general", cpu="4", size=4, max_size=4)
    simulation.add_workload("web", replicas=8, cpu="500m", start="60s", budget={"min_available": 7})
    simulation.run_for("1h")
    drains = [one for one in simulation.measurements.drains.entries if "gone" in one]
    assert len(drains) == 4 - simulation.node_count()
    for one in drains:
        assert one["tainted"] <= min(one["evicted"], default=one["tainted"]) <= one["gone"]
    summary = simulation.summary()
    assert sum(len(one["evicted"]) for one in drains) == summary["evictions"] > 0
    assert summary["budgetWaits"] > 0
    assert summary["budgetWaitS"] >= 60 * summary["budgetWaits"] / 2
    assert summary["evictionsPerPodHour"] == pytest.approx(summary["evictions"] / 8, rel=0.05)


def test_maps_show_what_is_on_each_node_before_and_after() -> None:
    result = result_of(watched()[0], "defaults")
    before, after = result["packing"]
    assert before["time"] < after["time"]
    assert len(after["nodes"]) == result["summary"]["nodesAtEnd"]
    for one in (*before["nodes"], *after["nodes"]):
        assert sum(one["cpuRequested"].values()) <= one["cpu"] == 4000
    assert {name for one in after["nodes"] for name in one["cpuRequested"]} >= {"agent", "web", "db"}


def test_a_simulation_writes_nothing_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    configured = structlog.get_config() if structlog.is_configured() else None
    structlog.reset_defaults()
    try:
        simulation = ClusterSimulation(small()).run_for("10m")
    finally:
        structlog.reset_defaults()
        if configured is not None:
            structlog.configure(**configured)
    assert simulation.round_count > 1
    assert capsys.readouterr() == ("", "")


def test_a_simulation_leaves_logging_to_a_caller_who_configured_it() -> None:
    with structlog.testing.capture_logs() as logged:
        ClusterSimulation(small()).run_for("10m")
    assert logged
