"""Groups that have run out of instances: where scale-up succeeds, with planner and actuator on virtual time.

Source: the Zalando fork of CA, ZALANDO_CHANGES ("More reliable backoff logic") and its simulations. Three of its groups
n1 to n4 have run out of instances. A group that reports no error is waited for once, as in the fork's
`TestZalandoScalingTest`: three time-outs if no shortage is reported, two if one is.
"""

from dataclasses import replace
from typing import Any

from trimtab.actuator.cloud.options import ANNOTATION_PREFIX
from trimtab.actuator.cloud.provider import Activity
from trimtab.actuator.service.settings import ActuatorSettings
from trimtab.actuator.settings import BackoffPolicy
from trimtab.clients.simulation.simulation import ClusterSimulation
from trimtab.v1 import plan_pb2, snapshot_pb2

LABEL = "zalando.org/scaling-priority"
NEVER, NEVER_S = "2400h", 2400 * 3600.0
NAMES = ("n1", "n2", "n3", "n4")


def settings() -> plan_pb2.PlanSettings:
    found = plan_pb2.PlanSettings()
    found.scale_up.expanders.append(plan_pb2.Expander.HIGHEST_PRIORITY)
    return found


def simulation(*out: str, kind: type[ClusterSimulation] = ClusterSimulation) -> ClusterSimulation:
    """Return a simulation of four groups, the first preferred most; machines of those in `out` never start."""
    made = kind(settings=settings())
    for place, name in enumerate(NAMES):
        start = NEVER if name in out else "60s"
        made.add_group(name, cpu="4", memory="32Gi", labels={LABEL: str(100 - place)}, start=start)
    return made


def run_out(made: ClusterSimulation, *groups: str) -> None:
    """Make machines of these groups never start from now on."""
    for name in groups:
        made._groups[name] = made._groups[name].model_copy(update={"start": NEVER_S})


def grown(made: ClusterSimulation) -> list[str]:
    """Return the groups that grew, in order."""
    return [entry["group"] for entry in made.decisions.entries if entry["kind"] == "scale-up"]


def sizes(made: ClusterSimulation) -> dict[str, int]:
    """Return the target sizes."""
    return {name: group["spec"]["targetSize"] for name, group in made.cluster.state.groups.items()}


def backed_off(made: ClusterSimulation) -> set[str]:
    """Return the groups in back-off."""
    status = made._actuator.get_status()
    return {one.id for one in status.node_groups if one.health == snapshot_pb2.NodeGroupHealth.BACKED_OFF}


def time_outs(made: ClusterSimulation) -> list[str]:
    """Return the groups that have timed out, in order."""
    actuator: Any = made._actuator
    failures = actuator._actuator.processor.read(lambda tracker, _: dict(tracker.data.group_failures))
    found = [(one.time_ms, group) for group, ones in failures.items() for one in ones]
    return [group for _, group in sorted(found) if any(one.activity.startswith("timeout/") for one in failures[group])]


def demand(made: ClusterSimulation) -> None:
    """Add two pods, each of which takes most of a node."""
    made.add_workload("web", replicas=2, cpu="1", memory="24Gi")


def test_three_groups_without_instances_time_out_once_each_and_the_fourth_serves() -> None:
    made = simulation("n1", "n2", "n3")
    demand(made)
    made.run_for("50m")
    assert grown(made) == [*time_outs(made), "n4"] == ["n1", "n2", "n3", "n4"]
    assert made.pending == []
    assert backed_off(made) == {"n1", "n2", "n3"}
    assert sizes(made) == {"n1": 1, "n2": 1, "n3": 1, "n4": 2}
    made.run_for("6h")
    assert grown(made) == ["n1", "n2", "n3", "n4"], "a back-off does not expire"


def test_with_the_time_out_of_the_fork_the_fourth_grows_when_it_does_there() -> None:
    """Three time-outs of seven minutes, within the 22 minutes of the fork's own simulation."""
    made = simulation("n1", "n2", "n3")
    with made.cluster.transaction() as state:
        for name in NAMES:
            state.groups[name]["metadata"]["annotations"] = {ANNOTATION_PREFIX + "maxnodeprovisiontime": "7m"}
            state.group_changed(name)
    demand(made)
    made.run_for("21m")
    assert grown(made) == ["n1", "n2", "n3"], "each of them is waited for"
    made.run_for("1m")
    assert grown(made) == ["n1", "n2", "n3", "n4"]


def test_where_one_failure_is_reported_at_once_the_fourth_serves_after_two_time_outs() -> None:
    made = simulation("n1", "n2", "n3")
    cloud: Any = made._actuator._actuator.cloud
    failed = Activity("a1", "n1", True, 0, "InsufficientInstanceCapacity")
    cloud.activities = lambda group: [failed] if group == "n1" else []
    demand(made)
    made.run_for("32m")
    assert grown(made) == ["n1", "n2", "n3", "n4"]
    assert time_outs(made) == ["n2", "n3"]
    made.run_for("3m")
    assert made.pending == []


def test_where_one_shortage_is_known_from_before_the_fourth_serves_after_two_time_outs() -> None:
    """Without a reported error: even hours later, after any timed back-off, n1 is not tried again."""
    made = simulation("n1")
    made.add_workload("before", replicas=1, cpu="1", memory="24Gi")
    made.run_for("25m")
    assert (grown(made), time_outs(made)) == (["n1", "n2"], ["n1"])
    made.run_for("6h")
    assert backed_off(made) == {"n1"}
    run_out(made, "n2", "n3")
    demand(made)
    made.run_for("32m")
    assert grown(made)[2:] == ["n2", "n3", "n4"]
    assert [group for group in time_outs(made) if group != "n1"] == ["n2", "n3"]
    made.run_for("3m")
    assert (made.pending, backed_off(made)) == ([], {"n1", "n2", "n3"})
    assert sizes(made) == {"n1": 1, "n2": 2, "n3": 1, "n4": 2}


def test_an_instance_that_joins_late_makes_its_group_healthy_again() -> None:
    made = simulation("n1")
    demand(made)
    made.run_for("25m")
    assert (grown(made), backed_off(made), made.pending) == (["n1", "n2"], {"n1"}, [])
    with made.cluster.transaction() as state:
        (late,) = [one for one in state.instances.values() if one.group == "n1" and not one.gone_due_ms]
        late.start_due_ms = state.now_ms + 1000
        state.put_instance(late)
    made.run_for("1m")
    assert backed_off(made) == set()
    made.scale("web", 8)
    made.run_for("1m")
    assert grown(made)[2:] == ["n1"]


def test_a_group_whose_target_is_taken_back_by_someone_else_is_healthy_again() -> None:
    made = simulation("n1")
    demand(made)
    made.run_for("25m")
    assert (backed_off(made), sizes(made)["n1"]) == ({"n1"}, 1)
    cloud: Any = made._actuator._actuator.cloud
    cloud.decrease_target("n1", 1, 0)
    made.run_for("2m")
    assert backed_off(made) == set()


def test_a_group_that_waited_before_the_loop_began_times_out_too() -> None:
    made = simulation("n1")
    with made.cluster.transaction() as state:
        state.groups["n1"]["spec"]["targetSize"] = 1
        state.group_changed("n1")
    made.add_workload("web", replicas=1, cpu="1", memory="24Gi")
    made.run_for("20m")
    assert (grown(made), made.pending) == (["n2"], [])


def test_a_group_that_is_backed_off_loses_nodes_that_are_not_needed_and_stays_backed_off() -> None:
    made = simulation()
    made.add_workload("first", replicas=1, cpu="1", memory="24Gi")
    made.run_for("3m")
    assert (made.pending, sizes(made)["n1"]) == ([], 1)
    made.add_workload("second", replicas=1, cpu="1", memory="24Gi")
    made.run_for("30s")
    assert grown(made) == ["n1", "n1"]
    with made.cluster.transaction() as state:
        (late,) = [one for one in state.instances.values() if one.start_due_ms]
        late.start_due_ms = state.now_ms + 10_000_000_000
        state.put_instance(late)
    made.run_for("20m")
    assert (grown(made), made.pending, backed_off(made)) == (["n1", "n1", "n2"], [], {"n1"})
    assert sizes(made)["n1"] == 2
    made.scale("first", 0)
    made.run_for("20m")
    assert sizes(made) == {"n1": 1, "n2": 1, "n3": 0, "n4": 0}
    made.run_for("1h")
    assert (grown(made), backed_off(made), sizes(made)["n1"]) == (["n1", "n1", "n2"], {"n1"}, 1)


class ByTime(ClusterSimulation):
    """A simulation whose actuator uses timed back-off, as the Cluster Autoscaler does."""

    def _actuator_settings(self) -> ActuatorSettings:
        made = super()._actuator_settings()
        return replace(made, groups=replace(made.groups, backoff=BackoffPolicy.EXPONENTIAL))


def test_where_back_offs_end_by_time_groups_without_instances_are_tried_again_before_the_fourth() -> None:
    made = simulation("n1", "n2", "n3", kind=ByTime)
    with made.cluster.transaction() as state:
        for name in NAMES:
            state.groups[name]["metadata"]["annotations"] = {ANNOTATION_PREFIX + "maxnodeprovisiontime": "7m"}
            state.group_changed(name)
    demand(made)
    made.run_for("1h")
    assert grown(made) == ["n1", "n2", "n1", "n2", "n3", "n1", "n2", "n3", "n4"]
    assert made.pending == []
