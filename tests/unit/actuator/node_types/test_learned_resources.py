"""Which nodes are learned from, and which of their resources are kept."""

import pytest

from trimtab.actuator.cloud.provider import MachineType
from trimtab.actuator.kube.cluster import NodeQuantities, NodeView
from trimtab.actuator.node_types.learned_resources import (
    ObservedNodes,
    is_known,
    learned_resources,
    machine_of,
    observed_nodes,
)
from trimtab.actuator.tracker.states import NodeAmounts, SeenType

GIB = 1 << 30
WHOLE = NodeQuantities("4", "16000000Ki", "58")
LARGE = MachineType("m5.xlarge", 4000, 16 * GIB, 58)
UNNAMED = MachineType("", 4000, 16 * GIB)


def view(kind: str, capacity: NodeQuantities = WHOLE, allocatable: NodeQuantities = WHOLE) -> NodeView:
    return NodeView("n", "u", "id", (), gpu=False, instance_type=kind, capacity=capacity, allocatable=allocatable)


def observed(kind: str = "m5.xlarge", cpu: int = 4000, memory: int = 15 * GIB) -> ObservedNodes:
    amounts = NodeAmounts(cpu, memory, 58)
    return ObservedNodes("g", kind, amounts, amounts)


def test_of_nodes_of_one_type_in_one_group_the_least_of_each_amount_counts() -> None:
    less_cpu = WHOLE._replace(cpu="3900m")
    less_memory = WHOLE._replace(memory="15000000Ki", pods="29")
    found = observed_nodes([("g", view("a")), ("g", view("a", WHOLE, less_cpu)), ("g", view("a", WHOLE, less_memory))])
    (one,) = found
    assert one.capacity == NodeAmounts(4000, 16_000_000 << 10, 58)
    assert one.allocatable == NodeAmounts(3900, 15_000_000 << 10, 29)


def with_others(disk: str = "0", gpu: str = "0") -> NodeQuantities:
    return WHOLE._replace(others=(("ephemeral-storage", disk), ("nvidia.com/gpu", gpu)))


def others(found: ObservedNodes) -> tuple[dict[str, int], dict[str, int]]:
    return dict(found.capacity.others), dict(found.allocatable.others)


def test_of_a_disk_the_least_counts_and_of_devices_what_all_are_made_with_and_any_has_at_work() -> None:
    rows = [
        (with_others(disk="100Gi", gpu="8"), with_others(disk="90Gi", gpu="8")),
        (with_others(disk="100Gi", gpu="8"), with_others(disk="80Gi", gpu="7")),
        (with_others(disk="100Gi", gpu="0"), with_others(disk="90Gi", gpu="0")),
    ]
    (one,) = observed_nodes([("g", view("a", whole, rest)) for whole, rest in rows])
    whole = {"ephemeral-storage": 100 * GIB, "nvidia.com/gpu": 8}
    assert others(one) == (whole, {"ephemeral-storage": 80 * GIB, "nvidia.com/gpu": 8})
    (broken,) = observed_nodes([("g", view("a", *rows[1])), ("g", view("a", *rows[2]))])
    assert others(broken)[1]["nvidia.com/gpu"] == 7
    (split,) = observed_nodes(
        [("g", view("a", *rows[0])), ("g", view("a", with_others(gpu="2"), with_others(gpu="2")))]
    )
    assert (others(split)[0]["nvidia.com/gpu"], others(split)[1]["nvidia.com/gpu"]) == (2, 2)


@pytest.mark.parametrize("created_ms", [0, 500, 2000], ids=["not known", "old", "young"])
def test_only_an_old_node_shows_that_a_device_will_not_come(created_ms: int) -> None:
    def learn(before: SeenType | None, node: NodeView, given: tuple[str, ...] = ("nvidia.com/gpu",)) -> dict[str, int]:
        (found,) = observed_nodes([("g", node)], old_ms=1000)
        return dict(learned_resources(found, LARGE, before, given).allocatable.others)

    bare = view("m5.xlarge")._replace(created_ms=created_ms)
    full = view("m5.xlarge", with_others(gpu="4"), with_others(gpu="4"))
    (shown,) = observed_nodes([("g", full)])
    known = learned_resources(shown, LARGE)
    is_old = created_ms == 500
    assert learn(None, bare) == ({"nvidia.com/gpu": 0} if is_old else {})
    assert learn(known, bare, ()) == ({"nvidia.com/gpu": 0} if is_old else {"nvidia.com/gpu": 4})
    assert learn(None, full) == {"nvidia.com/gpu": 4}
    other = LARGE._replace(memory_bytes=8 * GIB)
    (found,) = observed_nodes([("g", bare)], old_ms=1000)
    assert learned_resources(found, other, known).allocatable.others == (), "what another machine had says nothing"


def test_a_resource_that_is_new_or_changed_is_not_known() -> None:
    def kept(gpus: int) -> SeenType:
        amounts = NodeAmounts(4000, 15 * GIB, 58, (("nvidia.com/gpu", gpus),) if gpus >= 0 else ())
        return learned_resources(ObservedNodes("g", "m5.xlarge", amounts, amounts), LARGE)

    assert is_known(kept(4), kept(4))
    for now, before in ((4, -1), (4, 0), (0, 4), (3, 4), (5, 4)):
        assert not is_known(kept(now), kept(before)), (now, before)


def test_types_and_groups_are_kept_apart_and_sorted() -> None:
    found = observed_nodes([("h", view("a")), ("g", view("b")), ("g", view("a")), ("g", view(""))])
    assert [(one.node_group, one.instance_type) for one in found] == [("g", ""), ("g", "a"), ("g", "b"), ("h", "a")]


@pytest.mark.parametrize(
    "broken",
    [NodeQuantities(), WHOLE._replace(cpu="0"), WHOLE._replace(memory="much"), WHOLE._replace(pods="-")],
    ids=["nothing", "no cpu", "no memory", "no pods"],
)
def test_nothing_is_learned_from_a_node_with_missing_or_unreadable_amounts(broken: NodeQuantities) -> None:
    assert observed_nodes([("g", view("a", broken)), ("g", view("b", WHOLE, broken))]) == []
    assert len(observed_nodes([("g", view("a", WHOLE._replace(pods="")))])) == 1


def test_a_type_that_the_cloud_names_is_learned_also_in_a_mixed_group_and_no_other_type_is() -> None:
    mixed = [LARGE, LARGE._replace(name="m5.2xlarge", cpu_milli=8000)]
    assert machine_of(observed(), mixed, is_only=False) == LARGE
    assert machine_of(observed("c5.xlarge"), mixed, is_only=False) is None
    assert machine_of(observed("c5.xlarge"), [], is_only=True) is None


@pytest.mark.parametrize(
    ("shown", "is_only", "is_learned"),
    [
        (observed(), True, True),
        (observed(), False, False),
        (observed(cpu=8000), True, False),
        (observed(memory=8 * GIB), True, False),
        (observed(memory=32 * GIB), True, False),
        (observed(memory=16 * GIB), True, True),
    ],
    ids=["alike", "one type of several", "other cpu", "less memory", "more memory", "all memory"],
)
def test_a_machine_without_name_is_learned_from_nodes_like_it_alone_and_from_no_mix_of_types(
    shown: ObservedNodes, is_only: bool, is_learned: bool
) -> None:
    assert (machine_of(shown, [UNNAMED], is_only) == UNNAMED) is is_learned


def test_less_replaces_what_was_known_at_once_and_more_only_beyond_noise() -> None:
    def kept(share: float, machine: MachineType = LARGE) -> object:
        return learned_resources(observed(memory=int(share * 15 * GIB)), machine)

    before = learned_resources(observed(), LARGE)
    assert is_known(kept(1.0), before)  # type: ignore[arg-type]
    assert is_known(kept(1.009), before)  # type: ignore[arg-type]
    assert not is_known(kept(1.011), before)  # type: ignore[arg-type]
    assert not is_known(kept(0.99999), before)  # type: ignore[arg-type]
    assert not is_known(kept(1.0), None)  # type: ignore[arg-type]
    assert not is_known(kept(1.0, LARGE._replace(memory_bytes=17 * GIB)), before)  # type: ignore[arg-type]
