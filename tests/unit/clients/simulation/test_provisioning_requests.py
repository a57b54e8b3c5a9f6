"""ProvisioningRequests in the simulation: when the jobs that wait for them start, and what becomes of the requests."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from trimtab.clients.cli.blocks import Table
from trimtab.clients.cli.report.command import simulated
from trimtab.clients.cli.simulate.table import figures
from trimtab.clients.simulation import ClusterSimulation
from trimtab.clients.simulation.cluster.objects import condition, condition_reason
from trimtab.clients.simulation.objects import CONSUMES
from trimtab.clients.simulation.result import result_of
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.scenario_file import read_scenario
from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.clients.simulation.simulation import SimulationRunOptions
from trimtab.clients.simulation.traces.arrivals import Arrival
from trimtab.v1 import plan_pb2

Json = dict[str, Any]
CHECK = "check-capacity.autoscaling.x-k8s.io"
GROUPS: list[Json] = [
    {"name": "a", "cpu": "4", "maxSize": 2, "price": 0.2, "start": "60s"},
    {"name": "b", "cpu": "4", "maxSize": 2, "price": 0.3, "start": "3m"},
]


def scenario(**more: Any) -> Scenario:
    return Scenario.model_validate({"seed": 1, "duration": "1h", "nodeGroups": GROUPS, **more})


def asking(
    pods: int, lifetime_s: float | None = None, gang: int = 0, groups: list[Json] = GROUPS, **request: Any
) -> ClusterSimulation:
    """One job of pods that fill a node each, which asks at the beginning."""
    given = scenario(nodeGroups=groups, trace={"file": "-", "provisioningRequest": request})
    return ClusterSimulation(given, [Arrival(0.0, pods, "3", "1Gi", lifetime_s, gang=gang)])


def request(simulation: ClusterSimulation, name: str = "trace-0") -> Json:
    found: Json = simulation.cluster.state.others[f"ProvisioningRequest/default/{name}"]
    return found


def left(simulation: ClusterSimulation) -> set[str]:
    """Kinds of the objects of jobs."""
    return {key.partition("/")[0] for key in simulation.cluster.state.others}


def counts(simulation: ClusterSimulation) -> tuple[int, ...]:
    """Requests in all, provisioned, failed, revoked, and waiting."""
    names = ("requests", "requestsProvisioned", "requestsFailed", "requestsRevoked", "requestsWaitingAtEnd")
    summary = simulation.summary()
    return tuple(summary[name] for name in names)


def test_a_request_gets_nodes_of_two_groups_and_its_job_starts_once_they_are_ordered() -> None:
    simulation = asking(4, lifetime_s=600.0)
    simulation.run_for("1s")
    assert condition(request(simulation), "Provisioned")
    assert len(simulation.pending) == 4
    assert {pod.annotations[CONSUMES] for pod in simulation.cluster.state.pods.values()} == {"trace-0"}
    simulation.run_for("2m")
    assert {name: simulation.node_count(name) for name in ("a", "b")} == {"a": 2, "b": 0}
    assert condition_reason(request(simulation), "BookingExpired") == ""
    simulation.run_for("2m")
    assert {name: simulation.node_count(name) for name in ("a", "b")} == {"a": 2, "b": 2}
    assert simulation.pod_count() == 4
    assert condition_reason(request(simulation), "BookingExpired") == "CapacityBookingConsumed"
    assert {"Job", "ProvisioningRequest", "PodTemplate"} <= left(simulation)
    simulation.run()
    assert not {"Job", "ProvisioningRequest", "PodTemplate"} & left(simulation)
    assert counts(simulation) == (1, 1, 0, 0, 0)
    assert simulation.summary()["nodesAdded"] == 4
    grown = [one["text"] for one in simulation.decisions.entries if one["kind"] == "scale-up"]
    assert grown == [f"{name}: 0 to 2 nodes for ProvisioningRequests" for name in ("a", "b")]


def test_a_request_that_can_never_be_provisioned_fails_when_its_time_is_over_and_its_job_never_starts() -> None:
    simulation = asking(5, validUntil="10m")
    simulation.run_for("9m55s")
    assert counts(simulation) == (1, 0, 0, 0, 1)
    assert simulation.summary()["timeToProvisionedS"]["max"] == 595
    simulation.run()
    assert counts(simulation) == (1, 0, 1, 0, 0)
    assert not left(simulation)
    summary = simulation.summary()
    assert (summary["nodesAdded"], summary["podsScheduled"], summary["podsPendingAtEnd"]) == (0, 0, 0)
    assert summary["timeToProvisionedS"]["max"] == 0
    (entry,) = simulation.measurements.requests.entries
    assert entry == {
        "request": "default/trace-0",
        "since": simulation.begin_s,
        "answered": simulation.begin_s + 600,
        "provisioned": False,
    }


@pytest.mark.parametrize("of_class", [{}, {"class": CHECK}])
def test_a_request_is_provisioned_at_once_where_room_exists(of_class: Json) -> None:
    simulation = asking(2, groups=[{**GROUPS[0], "minSize": 2}], **of_class).run_for("1m")
    assert condition_reason(request(simulation), "Provisioned") == "CapacityIsFound"
    assert simulation.pod_count() == 2
    assert simulation.summary()["nodesAdded"] == 0
    assert counts(simulation) == (1, 1, 0, 0, 0)


def test_check_capacity_orders_no_node() -> None:
    simulation = asking(2, **{"class": CHECK}).run()
    assert condition_reason(request(simulation), "Provisioned") == "CapacityIsNotFound"
    assert counts(simulation) == (1, 0, 0, 0, 1)
    assert simulation.summary()["nodesAdded"] == 0
    assert simulation.summary()["timeToProvisionedS"]["p50"] == 3600


def test_with_provisioned_when_ready_the_pods_are_created_on_nodes_that_are_there() -> None:
    settings = plan_pb2.PlanSettings()
    settings.capacity_requests.provisioned_when = plan_pb2.ProvisionedWhen.READY
    given = scenario(trace={"file": "-", "provisioningRequest": {}})
    simulation = ClusterSimulation(given, [Arrival(0.0, 4, "3", "1Gi", None)], settings=settings)
    while not simulation.cluster.state.pods:
        assert simulation.now_s < simulation.begin_s + 600
        simulation.run_for("5s")
    assert not simulation.pending
    assert simulation.summary()["timeToProvisionedS"]["max"] >= 180


def test_a_booking_ends_after_its_time_while_its_nodes_are_still_to_come() -> None:
    simulation = asking(2, groups=[{**GROUPS[0], "start": "15m"}]).run_for("9m50s")
    assert condition_reason(request(simulation), "BookingExpired") == ""
    simulation.run_for("20s")
    assert condition_reason(request(simulation), "BookingExpired") == "CapacityReservationTimeExpired"
    simulation.run()
    assert simulation.pod_count() == 2


def test_a_request_whose_nodes_never_come_and_cannot_be_had_again_is_revoked() -> None:
    outage = {"from": "10s", "to": "1h"}
    simulation = asking(2, groups=[{**GROUPS[0], "startFailureRate": 1, "outages": [outage]}]).run()
    assert condition_reason(request(simulation), "CapacityRevoked") == "CapacityIsLost"
    assert counts(simulation) == (1, 1, 0, 1, 0)


def test_the_pod_group_of_a_job_that_waits_for_its_request_comes_with_the_job() -> None:
    simulation = asking(3, 300.0, 3, validUntil="1h")
    assert "PodGroup" not in left(simulation)
    simulation.run_for("5m")
    assert "PodGroup" in left(simulation)
    assert simulation.pod_count() == 3
    simulation.run()
    assert not {"PodGroup", "ProvisioningRequest"} & left(simulation)
    assert simulation.summary()["gangsWhole"] == 1


BATCH: Json = {
    "name": "job",
    "perHour": 5,
    "pods": 4,
    "lifetime": "10m",
    "pod": {"cpu": "3"},
    "provisioningRequest": {"validUntil": "15m"},
}


@cache
def ran() -> ClusterSimulation:
    """A batch whose jobs wait for their requests, after its end; tests only read it."""
    return ClusterSimulation(scenario(duration="3h", batches=[BATCH])).run()


@pytest.mark.ci
def test_each_job_of_a_batch_has_a_request_and_only_those_provisioned_start() -> None:
    simulation = ran()
    created, provisioned, failed, revoked, waiting = counts(simulation)
    assert provisioned + failed + waiting == created
    assert min(provisioned, failed) > 0
    assert revoked == 0
    assert simulation.summary()["podsScheduled"] == 4 * provisioned
    entries = simulation.measurements.requests.entries
    waits = sorted(one["answered"] - one["since"] for one in entries if one["provisioned"])
    assert len(waits) == provisioned
    assert {one["answered"] - one["since"] >= 900 for one in entries if not one["provisioned"]} == {True}


@pytest.mark.ci
def test_rounds_without_anything_new_would_have_changed_nothing_for_requests() -> None:
    batch = {**BATCH, "perHour": 10, "lifetime": "4m", "provisioningRequest": {"validUntil": "10m"}}
    shorter = scenario(duration="40m", timing={"interval": "20s"}, batches=[batch])

    def run(skip_idle: bool) -> Json:
        options = SimulationRunOptions(skip_idle=skip_idle)
        return result_of(ClusterSimulation(shorter, options=options).run(), "x")

    skipping, every = run(True), run(False)
    assert min(skipping["summary"][name] for name in ("requestsProvisioned", "requestsFailed")) > 0
    assert skipping["summary"].pop("rounds") < every["summary"].pop("rounds")
    assert skipping == every


def test_the_table_and_the_page_have_the_figures_of_requests_only_if_there_are_any() -> None:
    result = result_of(ran(), "default")
    shown = dict(figures([result]))
    created, provisioned, failed, *_ = counts(ran())
    assert shown["ProvisioningRequests"] == [str(created)]
    assert (shown["  provisioned"], shown["  failed"]) == ([str(provisioned)], [str(failed)])
    assert set(shown) >= {"time to provisioned, median", "  90 % of requests within", "  longest request"}
    blocks = simulated(json.loads(json.dumps(result))).blocks
    (table,) = [one for one in blocks if isinstance(one, Table) and one.title == "Figures"]
    assert set(shown) == {line.cells[0] for line in table.lines}
    without = dict(figures([result_of(ClusterSimulation(scenario(duration="1m")).run(), "default")]))
    assert not set(without) & {"ProvisioningRequests", "  provisioned", "time to provisioned, median"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            "batches:\n- {name: b, perHour: 1, provisioningRequest: {class: other}}\n",
            "line 2: batches[0].provisioningRequest.class: Input should be 'best-effort-atomic",
            id="class",
        ),
        pytest.param(
            "batches:\n- name: b\n  perHour: 1\n  provisioningRequest:\n    validUntil: 0s\n",
            "line 5: batches[0].provisioningRequest.validUntil: at least 1s",
            id="no time",
        ),
        pytest.param(
            "trace: {file: t.csv, provisioningRequest: {noRetry: true}}\n",
            "line 1: trace.provisioningRequest.noRetry: this key is unknown",
            id="unknown key",
        ),
        pytest.param(
            "policy: {external: [cat]}\nbatches:\n- {name: b, perHour: 1, provisioningRequest: {}}\n",
            "policy: an external program answers no provisioningRequest; leave it out",
            id="another planner",
        ),
        pytest.param(
            "trace: {file: t.sktrace, provisioningRequest: {}}\n",
            "t.sktrace: trace.provisioningRequest: pods of SimKube come as recorded; leave it out",
            id="SimKube",
        ),
    ],
)
def test_a_request_that_cannot_be_meant_is_refused_with_its_field(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(ScenarioError) as failed:
        read_scenario(tmp_path / "s.yaml")
    assert told in str(failed.value)
