"""Which annotations are written: only the plan's nodes are protected, and annotations of others are never touched. Also
the settings of steering's plans, as the planner reads them, and what becomes of each node.
"""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from trimtab.clients.steering.marks import (
    NodeMarks,
    Write,
    clean,
    nodes_to_keep,
    nodes_to_release,
    ours,
    settings_to_steer,
    writes,
)
from trimtab.common.kubernetes.signals.cluster_autoscaler import SCALE_DOWN_DISABLED
from trimtab.common.kubernetes.signals.karpenter import DO_NOT_DISRUPT
from trimtab.common.kubernetes.signals.ours import STEERED
from trimtab.planner.model.settings.scale_down import resolve_scale_down
from trimtab.v1 import plan_pb2

KEY = SCALE_DOWN_DISABLED.key
NAMES = [f"n{i}" for i in range(6)]


class Owned(NamedTuple):
    """A node's annotations with their managers, as server-side apply keeps them."""

    foreign: dict[str, str]
    applied: dict[str, str]
    leaving: bool

    @property
    def marks(self) -> dict[str, str]:
        return self.applied | self.foreign


Cluster = dict[str, Owned]


def seen(cluster: Cluster) -> list[NodeMarks]:
    return [NodeMarks(name, f"uid-{name}", one.marks, one.leaving) for name, one in cluster.items()]


def written(cluster: Cluster, made: list[Write]) -> Cluster:
    """Return the result of server-side apply: omitted fields are removed unless another manager owns them."""
    after = dict(cluster)
    for one in made:
        conflict = any(cluster[one.name].foreign.get(key, text) != text for key, text in one.annotations.items())
        if not conflict:
            after[one.name] = cluster[one.name]._replace(applied=dict(one.annotations))
    return after


nodes = st.builds(
    Owned,
    foreign=st.sampled_from([{}, {}, {}, {KEY: "true"}, {KEY: "false"}, {DO_NOT_DISRUPT.key: "true"}]),
    applied=st.sampled_from([{}, ours(KEY), ours(DO_NOT_DISRUPT.key)]),
    leaving=st.sampled_from([False, False, False, True]),
)
clusters = st.dictionaries(st.sampled_from(NAMES), nodes, max_size=6)
names = st.sets(st.sampled_from(NAMES))


@given(clusters, names)
def test_what_was_written_once_is_not_written_again(cluster: Cluster, stay: set[str]) -> None:
    for _ in range(2):  # a mark made void by another client's change goes first
        cluster = written(cluster, writes(seen(cluster), stay, KEY))
    assert writes(seen(cluster), stay, KEY) == []


@given(clusters, names)
def test_afterwards_nodes_that_should_stay_are_protected_and_no_others_by_us(cluster: Cluster, stay: set[str]) -> None:
    after = cluster
    for _ in range(2):
        after = written(after, writes(seen(after), stay, KEY))
    for name, node in after.items():
        if node.leaving:
            assert node == cluster[name]
        elif KEY in node.foreign:
            assert node.applied in ({}, ours(KEY))
        else:
            assert node.applied == (ours(KEY) if name in stay else {})


@given(clusters, names)
def test_nodes_are_closed_before_others_are_opened_each_at_most_once(cluster: Cluster, stay: set[str]) -> None:
    made = writes(seen(cluster), stay, KEY)
    assert [one.name for one in made] == [
        *sorted(one.name for one in made if one.protects),
        *sorted(one.name for one in made if not one.protects),
    ]
    assert len({one.name for one in made}) == len(made)
    assert {one.name for one in made if one.protects} <= stay


@given(clusters)
def test_cleaning_removes_all_annotations_of_trimtab_and_nothing_else(cluster: Cluster) -> None:
    after = written(cluster, clean(seen(cluster)))
    assert all(STEERED.key not in node.marks for node in after.values())
    assert {name: node.foreign for name, node in after.items()} == {name: one.foreign for name, one in cluster.items()}
    assert clean(seen(after)) == []


def test_a_node_another_client_has_protected_or_opened_is_left_alone() -> None:
    for text in ("true", "false"):
        assert writes([NodeMarks("n", "u", {KEY: text})], {"n"}, KEY) == []
        assert writes([NodeMarks("n", "u", {KEY: text})], set(), KEY) == []


def test_where_somebody_has_changed_our_annotation_the_mark_goes() -> None:
    assert writes([NodeMarks("n", "u", ours(KEY) | {KEY: "false"})], {"n"}, KEY) == [Write("n", "u", {})]


def test_another_autoscaler_gets_its_own_annotation_in_place_of_the_old_one() -> None:
    assert writes([NodeMarks("n", "u", ours(KEY))], {"n"}, DO_NOT_DISRUPT.key) == [
        Write("n", "u", ours(DO_NOT_DISRUPT.key))
    ]


def test_nodes_that_could_not_go_are_checked_again_in_the_next_plan() -> None:
    given = plan_pb2.PlanSettings()
    given.scale_down.utilization_threshold = 0.6
    assert resolve_scale_down(given).recheck_timeout_ns > 0
    settings = resolve_scale_down(settings_to_steer(given))
    assert settings.recheck_timeout_ns == 0
    assert settings == resolve_scale_down(settings_to_steer(settings_to_steer(given)))
    assert not given.scale_down.HasField("unremovable_node_recheck_timeout")


def test_a_time_that_is_set_is_kept() -> None:
    given = plan_pb2.PlanSettings()
    given.scale_down.unremovable_node_recheck_timeout.FromSeconds(30)
    assert settings_to_steer(given) == given


def test_only_nodes_of_the_first_wave_are_released() -> None:
    answer = plan_pb2.PlanResponse()
    answer.nodes.add(node="now", wave=1, fate=plan_pb2.NodeFate.GOES_NOW)
    answer.nodes.add(node="later", wave=2, fate=plan_pb2.NodeFate.GOES_LATER)
    answer.nodes.add(node="used", fate=plan_pb2.NodeFate.STAYS)
    assert nodes_to_release(answer) == {"now"}
    assert nodes_to_keep(answer) == {"later", "used"}
