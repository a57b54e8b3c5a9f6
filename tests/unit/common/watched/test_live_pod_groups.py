"""Groups of pods of a watched cluster: the same as from files, change by change."""

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import kubernetes as k8s
from tests.builders import pod_group_objects as gangs
from tests.builders.expanded_snapshot import applied, expand
from tests.builders.watched_objects import filled, from_files, kind_of, raw, whole
from trimtab.common.deltas import Application
from trimtab.common.watched.snapshot_maker import SnapshotMaker
from trimtab.v1 import snapshot_pb2 as pb

Json = dict[str, Any]


def versions(chance: random.Random) -> list[Json]:
    """Return one version of each object of a small cluster."""
    job = k8s.job("train-job", chance.randrange(1, 4))
    job["spec"]["template"] = {"spec": {"containers": [{"name": "c"}], "priorityClassName": "high"}}
    phase = chance.choice([None, "Succeeded"])
    asking = gangs.pod_group("asking", workload="train")
    asking["metadata"]["annotations"] = chance.choice([{}, {"trimtab.dev/slack": "2"}])
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
    return [
        k8s.node("n1"),
        job,
        high | {"value": chance.randrange(3)},
        gangs.pod_group(least=chance.choice([None, 0, 2]), workload=chance.choice(["", "train"])),
        gangs.pod_group("second", workload="train"),
        asking,
        gangs.workload(least=chance.randrange(1, 4), job=chance.choice(["", "train-job"])),
        gangs.workload("old", least=chance.randrange(0, 3), version=gangs.V1ALPHA1, job="train-job"),
        gangs.volcano_group(least=chance.choice([None, 1, 3])),
        gangs.member("a", chance.choice(["team", "second", "gone"])),
        gangs.workload_member("b", "old", replica=chance.choice(["", "0"])),
        gangs.volcano_member("c", node="n1", phase=phase),
        gangs.volcano_member("d"),
        gangs.kueue_member("e", total=chance.choice(["2", "3"])),
        gangs.kueue_member("f", node="n1", phase=phase),
        k8s.pod("g"),
    ]


def test_watched_groups_give_the_bytes_that_files_give() -> None:
    for seed in range(5):
        objects = versions(random.Random(seed))
        assert whole(filled(objects)) == from_files(objects)


@given(seed=st.integers(0, 2**32), refused=st.booleans())
def test_a_base_and_its_deltas_are_the_whole(seed: int, *, refused: bool) -> None:
    chance = random.Random(seed)
    store = filled(chance.sample(versions(chance), 10))
    maker = SnapshotMaker(store)
    first = maker.next_update([], None).snapshot
    assert first is not None
    tables, application = expand(first), Application(first)
    for step in range(8):
        for one in chance.sample(versions(chance), 2):
            if chance.random() < 0.4:
                store.drop(kind_of(one), raw(one))
            else:
                store.put(kind_of(one), [raw(one)])
        delta = maker.next_update([], None).delta
        assert delta is not None
        if refused and chance.random() < 0.5 and step < 7:
            maker.requeue()
            continue
        tables = applied(tables, delta)
        application.add(delta)
        fresh = pb.ClusterSnapshot.FromString(whole(store))
        assert tables == expand(fresh), step
        assert tables == expand(application.result()), step


def test_a_pod_of_a_group_of_kubernetes_does_not_change_the_group() -> None:
    store = filled([gangs.pod_group()])
    maker = SnapshotMaker(store)
    maker.next_update([], None)
    store.put("Pod", [raw(gangs.member("a"))])
    delta = maker.next_update([], None).delta
    assert delta is not None
    assert (delta.changed.pods.count, list(delta.changed.pod_groups)) == (1, [])
