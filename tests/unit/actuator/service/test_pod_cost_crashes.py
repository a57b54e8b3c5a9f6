"""The actuator dies at every write while it applies pod costs: readers never mistake a half-written group for a
complete one, and the next call completes the work without losses or leftovers.
"""

from collections.abc import Mapping
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.builders.actuator import DELAYS, Breaker, Crash
from tests.builders.examples import examples
from tests.builders.kubernetes import Json, node, pod, replica_set
from tests.reference.pod_removal import Ranking, of_annotations, of_object
from trimtab.actuator.kube.cluster import ClusterError
from trimtab.actuator.service.pod_costs import CostOrders, GroupOrder, apply_pod_costs
from trimtab.actuator.service.settings import WriteLimits
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.common.kubernetes.names import POD_COST_ANNOTATION
from trimtab.v1 import actuator_pb2

EACH = 3
Costs = Mapping[str, int]
AS_TEXT = ("changed", "first", "to-text")
AS_OBJECT = ("again", "to-object")
GROUPS = (*AS_TEXT, *AS_OBJECT, "dropped", "dropped-object", "theirs")
OLD: dict[str, Costs] = {
    group: {f"default/{group}-{i}": -10 * (i + 1) for i in range(EACH)} for group in GROUPS if group != "first"
}
NEW: dict[str, Costs] = {
    group: {f"default/{group}-{i}": -10 * (EACH - i) - 1 for i in range(EACH)} for group in (*AS_TEXT, *AS_OBJECT)
}
BEFORE_OBJECTS = ("again", "to-text", "dropped-object")


def orders(costs: Mapping[str, Costs], objects: tuple[str, ...], made: str) -> CostOrders:
    groups = [
        GroupOrder(f"ReplicaSet/default/{group}", of_group, after_each_removal=group in objects)
        for group, of_group in sorted(costs.items())
    ]
    return CostOrders(groups, remove_others=True, made=made)


BEFORE = orders({group: one for group, one in OLD.items() if group != "theirs"}, BEFORE_OBJECTS, "2026-01-01T00:00:00Z")
AFTER = orders(NEW, AS_OBJECT, "2026-01-01T00:01:00Z")


class Scene:
    """A cluster with costs of an earlier plan, in which some groups and their ways of writing change."""

    def __init__(self) -> None:
        objects: list[Json] = [node("n")]
        for group in GROUPS:
            owner = replica_set(group, EACH)
            objects += [owner, *(pod(f"{group}-{i}", node="n", owner=owner) for i in range(EACH))]
        self.cluster = SimulatedCluster(objects, None, DELAYS, lambda: 0.0, lambda _: None)
        for one, cost in OLD["theirs"].items():
            item = self.cluster.state.pods["default", one.partition("/")[2]].item
            item["metadata"]["annotations"] = {POD_COST_ANNOTATION: str(cost)}
        self.apply(BEFORE)

    def apply(
        self, wanted: CostOrders, die_at: int | None = None, limits: WriteLimits | None = None
    ) -> actuator_pb2.ApplyPodCostsResponse | None:
        """Apply costs; return None if the actuator died at the n-th point before or after a call to the cluster."""
        breaker = Breaker(die_at)
        faults = self.cluster.faults
        faults.before = lambda operation, subject: breaker.moment(f"before {operation} {subject}")
        faults.after = lambda operation, subject: breaker.moment(f"after {operation} {subject}")
        try:
            return apply_pod_costs(self.cluster, wanted, limits or WriteLimits())
        except Crash:
            return None
        finally:
            faults.before = faults.after = lambda operation, subject: None

    def objects(self) -> dict[str, Json]:
        """Return PodGroupCosts as kubectl prints them, by owner name."""
        found = {}
        for known in self.cluster.group_costs():
            cost, status = known.cost, known.status
            about: dict[str, Any] = {}
            if status is not None:
                about = {
                    "generation": known.generation, "complete": status.complete, "rankedAt": status.made,
                    "observedPods": status.observed_pods, "rankedPods": status.ranked_pods,
                }  # fmt: skip
            spec = {"costs": dict(cost.costs), "maxRemovals": cost.max_removals, "waitsFor": cost.waits_for}
            found[cost.owner_name] = {"metadata": {"generation": known.generation}, "spec": spec, "status": about}
        return found

    def pods(self, group: str) -> list[Json]:
        """Return the pods of a group as kubectl prints them."""
        every = self.cluster.state.pods
        return [every["default", f"{group}-{i}"].item for i in range(EACH)]


def is_usable(ranking: Ranking) -> bool:
    """Return whether a controller would use a ranking: `choose` checks the same."""
    return ranking.ready and len(ranking.ranks) == EACH


def ranks(costs: Costs) -> dict[str, int]:
    return {pod.partition("/")[2]: -cost for pod, cost in costs.items()}


def check_readers(scene: Scene) -> None:
    """Check that readers accept a group as complete only with the costs of one plan."""
    objects = scene.objects()
    for group in GROUPS:
        plans = [ranks(one[group]) for one in (OLD, NEW) if group in one]
        readings = [of_annotations(scene.pods(group)), *([of_object(objects[group])] if group in objects else [])]
        for one in readings:
            assert not is_usable(one) or one.ranks in plans, (group, one)
        assert group != "theirs" or not any(map(is_usable, readings))


def check_end(scene: Scene) -> None:
    """Check that everything matches the last plan, and that nothing remains of the previous one."""
    objects = scene.objects()
    assert objects.keys() == set(AS_OBJECT)
    for group in AS_OBJECT:
        found = of_object(objects[group])
        assert (found.ready, found.ranks) == (True, ranks(NEW[group]))
        assert of_annotations(scene.pods(group)).ranks == {}
    for group in AS_TEXT:
        read = of_annotations(scene.pods(group))
        assert (read.ready, read.ranks) == (True, ranks(NEW[group]))
    texts = {key: one["metadata"].get("annotations") for group in GROUPS for one in scene.pods(group)
             for key in [one["metadata"]["name"]]}  # fmt: skip
    assert not any(texts[f"{group}-{i}"] for group in ("dropped", "dropped-object") for i in range(EACH))
    assert [texts[f"theirs-{i}"] for i in range(EACH)] == [
        {POD_COST_ANNOTATION: str(cost)} for cost in OLD["theirs"].values()
    ]
    again = scene.apply(AFTER)
    assert again is not None
    assert (again.written_count, again.removed_count, again.objects_written_count, again.objects_removed_count) == (
        0, 0, 0, 0,
    )  # fmt: skip


def test_the_actuator_may_die_at_every_write() -> None:
    die_at = 0
    while True:
        die_at += 1
        scene = Scene()
        check_readers(scene)
        if scene.apply(AFTER, die_at) is not None:
            break
        check_readers(scene)
        done = scene.apply(AFTER)
        assert done is not None
        assert (done.failed_count, list(done.incomplete)) == (0, [])
        check_end(scene)
    # Before and after: two reads of pods, one of objects, and each write.
    assert die_at - 1 >= 2 * (3 + 4 + 4 + 4 + 3 + 3 + 2 + 2 + 2)


@given(st.lists(st.integers(1, 60), max_size=4), st.integers(1, 9))
@example([1, 5, 9, 20], 1)
@examples(30)
def test_it_may_die_again_and_again_and_each_call_may_be_cut_short(deaths: list[int], most: int) -> None:
    scene = Scene()
    for die_at in deaths:
        scene.apply(AFTER, die_at, WriteLimits(max_count=most))
        check_readers(scene)
    for _ in range(60):
        done = scene.apply(AFTER, None, WriteLimits(max_count=most))
        assert done is not None
        check_readers(scene)
        if not done.incomplete and not done.left_count:
            break
    scene.apply(AFTER)
    check_end(scene)


def test_a_group_of_which_a_write_fails_midway_stays_marked_until_it_is_whole() -> None:
    scene = Scene()
    scene.cluster.faults.add(Fault("write_pod_cost", "default/changed-1", ClusterError("no answer"), times=1))
    only = orders({"changed": NEW["changed"]}, (), AFTER.made)._replace(remove_others=False)
    done = scene.apply(only)
    assert done is not None
    (incomplete,) = done.incomplete
    assert (incomplete.pod_count, incomplete.ranked_count) == (3, 2)
    read = of_annotations(scene.pods("changed"))
    assert (read.ready, read.why_not) == (False, "some pods of the group still have ranks of an earlier plan")
    # The pod that is removed last has the mark.
    assert [one.key for one in scene.cluster.own_pod_costs() if one.unfinished] == ["default/changed-2"]
    done = scene.apply(only)
    assert done is not None
    assert (done.written_count, done.unchanged_count, list(done.incomplete)) == (1, 2, [])
    assert of_annotations(scene.pods("changed")).ready


def test_one_pod_of_a_group_that_changes_is_one_write() -> None:
    scene = Scene()
    scene.apply(AFTER)
    costs = dict(NEW["changed"]) | {"default/changed-0": -99}
    before = len(scene.cluster.journal())
    scene.apply(orders({"changed": costs}, (), AFTER.made)._replace(remove_others=False))
    assert [one.what for one in scene.cluster.journal()[before:]] == ["cost_written"]
