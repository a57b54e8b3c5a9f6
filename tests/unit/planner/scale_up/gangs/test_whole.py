"""Gangs in scale-up get places for their minimum, over all node groups, or none."""

from tests.builders.gangs import GangRow, member, members, plan_gangs, reasons
from tests.builders.kubernetes import Json, node, node_group, pod

ZONE = "topology.kubernetes.io/zone"


def grows(name: str, cpu: str = "4", most: int = 10, price: float = 1.0, zone: str = "", role: str = "") -> Json:
    """Build a node group that has no node yet."""
    template = node("t", cpu, labels={"role": role} if role else None, zone=zone)
    return node_group(name, 0, most, target=0, price=price, template=template)


def test_a_gang_that_fits_new_nodes_gets_them_all() -> None:
    found = plan_gangs([GangRow("g", 8)], members("g", 8, "2"), grows("a"))
    assert found.growth == {"a": 4}
    assert reasons(found) == {"g": ""}


def test_a_gang_that_cannot_be_whole_gets_no_node_and_no_place() -> None:
    found = plan_gangs([GangRow("g", 8)], members("g", 8, "2"), grows("a", most=3), node("n", "2"))
    assert (found.growth, found.on_existing) == ({}, {})
    assert reasons(found) == {"g": "MAX_SIZE_REACHED"}
    (gang,) = found.decision.gangs
    assert list(gang.node_groups) == ["a"]
    assert gang.detail == "1 of 8 pods that it needs have no place: a would help and is at the maximum size"
    assert found.pending["default/g-000"] == {"a": "GANG_INCOMPLETE"}
    assert {one.detail for one in found.decision.unschedulable} == {f"its gang default/g waits: {gang.detail}"}


def test_a_gang_in_a_cluster_without_any_node_waits() -> None:
    found = plan_gangs([GangRow("g", 2)], members("g", 2, "2"))
    assert (found.growth, found.result) == ({}, "NO_OPTIONS")


def test_free_room_and_new_nodes_of_several_groups_make_a_gang_whole_together() -> None:
    found = plan_gangs([GangRow("g", 8)], members("g", 8, "2"), grows("a", most=2), grows("b", most=1), node("n"))
    assert found.growth == {"a": 2, "b": 1}
    assert len(found.on_existing) == 2
    assert sorted(found.decision.after_new_nodes) == sorted(found.on_existing)


def test_a_head_on_one_group_and_workers_on_another_come_together() -> None:
    gpu = node_group("gpu", 0, 4, target=0, template=node("t", "8", extra={"nvidia.com/gpu": "1"}))
    workers = [member(f"w{i}", "g", "1", requests={"nvidia.com/gpu": "1"}) for i in range(4)]
    head = member("head", "g", "3", node_selector={"role": "head"})
    cpu = grows("cpu", role="head")
    found = plan_gangs([GangRow("g", 5)], head, workers, gpu, cpu)
    assert found.growth == {"cpu": 1, "gpu": 4}
    without = plan_gangs([GangRow("g", 5)], head, workers, gpu)
    assert (without.growth, reasons(without)) == ({}, {"g": "NO_NODE_GROUP_FITS"})


def test_what_one_gang_needs_is_not_given_to_a_later_one() -> None:
    gangs = [GangRow("early", 4), GangRow("late", 4)]
    early = members("early", 4, "2", created="2026-01-01T00:00:00Z")
    late = members("late", 4, "2", created="2026-01-02T00:00:00Z")
    found = plan_gangs(gangs, early, late, grows("a", most=3))
    assert (found.growth, reasons(found)) == ({"a": 2}, {"early": "", "late": "MAX_SIZE_REACHED"})


def test_after_a_gang_that_cannot_be_whole_the_more_important_single_pod_comes_first() -> None:
    """Not the one that is first by name."""
    singles = [pod("a", "1", priority=1), pod("b", "1", priority=2)]
    found = plan_gangs([GangRow("g", 2)], members("g", 2, "1", priority=3), singles, node("n", "1"))
    assert found.on_existing == {"default/b": "n"}


def test_the_more_important_gang_comes_first() -> None:
    gangs = [GangRow("early", 4), GangRow("late", 4)]
    early = members("early", 4, "2", created="2026-01-01T00:00:00Z")
    late = members("late", 4, "2", created="2026-01-02T00:00:00Z", priority=7)
    found = plan_gangs(gangs, early, late, grows("a", most=3))
    assert reasons(found) == {"early": "MAX_SIZE_REACHED", "late": ""}


def test_a_gang_in_its_turn_gets_the_places_planned_for_it_after_nodes_of_another_were_opened() -> None:
    def sized(gang: str, *cores: int) -> list[Json]:
        return [member(f"{gang}-{i}", gang, str(one), created=f"2026-01-01T00:00:0{i}Z") for i, one in enumerate(cores)]

    gangs = [GangRow("early", 6, key=ZONE), GangRow("late", 4, key=ZONE)]
    groups = grows("b7", "7", 3, 4.0, "b"), grows("a4", "4", 4, 1.0, "a"), grows("b4", "4", 3, 3.0, "b")
    found = plan_gangs(gangs, sized("early", 3, 3, 3, 1, 2, 3), sized("late", 2, 3, 1, 3), *groups)
    assert reasons(found) == {"early": "", "late": ""}
    assert found.growth == {"a4": 3, "b7": 2, "b4": 1}
    assert found.decision.price_per_hour == 14


def test_a_gang_that_cannot_be_whole_leaves_its_room_to_later_pods() -> None:
    late = pod("single", "2", created="2026-01-03T00:00:00Z")
    found = plan_gangs([GangRow("g", 8)], members("g", 8, "2"), late, grows("a", most=3))
    assert (found.on_new, reasons(found)) == ({"a": ["default/single"]}, {"g": "MAX_SIZE_REACHED"})


def test_an_older_single_pod_comes_before_a_gang_and_a_younger_one_after_it() -> None:
    gang = members("g", 4, "2", created="2026-01-02T00:00:00Z")
    old, young = pod("old", "4", created="2026-01-01T00:00:00Z"), pod("young", "4", created="2026-01-03T00:00:00Z")
    found = plan_gangs([GangRow("g", 4)], gang, old, grows("a", most=2))
    assert (found.on_new, reasons(found)) == ({"a": ["default/old"]}, {"g": "MAX_SIZE_REACHED"})
    found = plan_gangs([GangRow("g", 4)], gang, young, grows("a", most=2))
    assert (found.growth, reasons(found)) == ({"a": 2}, {"g": ""})
    assert list(found.pending) == ["default/young"]


def test_pods_beyond_the_minimum_come_as_far_as_limits_allow() -> None:
    found = plan_gangs([GangRow("g", 4)], members("g", 8, "2"), grows("a", most=3))
    assert (found.growth, reasons(found)) == ({"a": 3}, {"g": ""})
    (gang,) = found.decision.gangs
    assert (gang.placed_count, gang.detail) == (6, "2 pods beyond its minimum without a place")


def test_without_optional_pods_a_gang_gets_nodes_for_its_minimum_only() -> None:
    settings = {"gangs": {"serveOptionalMembers": False}}
    found = plan_gangs([GangRow("g", 4)], members("g", 8, "2"), grows("a", most=3), settings=settings)
    assert found.growth == {"a": 2}
    assert sorted(found.skipped.values()) == ["BEYOND_GANG_MINIMUM"] * 4
    assert not found.decision.unschedulable


def test_without_optional_pods_a_gang_whose_minimum_runs_gets_no_nodes() -> None:
    running = members("g", 2, "1", node="n", phase="Running")
    waiting = [member(f"x{i}", "g", "2") for i in range(3)]
    for optional, growth in ((True, {"a": 2}), (False, {})):
        settings = {"gangs": {"serveOptionalMembers": optional}}
        found = plan_gangs([GangRow("g", 2)], running, waiting, node("n", cpu="2"), grows("a"), settings=settings)
        assert found.growth == growth
        assert set(found.skipped.values()) == (set() if optional else {"BEYOND_GANG_MINIMUM"})


def test_running_pods_count_for_the_minimum() -> None:
    running = members("g", 3, "1", node="n", phase="Running")
    waiting = [member(f"x{i}", "g", "2") for i in range(2)]
    found = plan_gangs([GangRow("g", 4)], running, waiting, node("n"), grows("a", cpu="2", most=1))
    assert (found.growth, reasons(found)) == ({"a": 1}, {"g": ""})


def test_pods_wait_until_as_many_exist_as_the_minimum() -> None:
    found = plan_gangs([GangRow("g", 8)], members("g", 7), grows("a"), node("n"))
    assert (found.growth, reasons(found)) == ({}, {"g": "TOO_FEW_PODS"})
    assert set(found.skipped.values()) == {"HELD_WITH_GANG"}
    (gang,) = found.decision.gangs
    assert gang.detail == "PodGroup/default/g has minCount 8, and 7 of its pods exist: its 7 pods wait for 1 more"


def test_pods_wait_for_a_pod_group_that_does_not_exist_or_cannot_be_read_and_all_else_is_decided() -> None:
    bad = GangRow("bad", problem="spec.schedulingPolicy.gang.minCount is missing")
    found = plan_gangs([bad], members("none", 2), members("bad", 2), pod("single"), grows("a"))
    assert (found.on_new, reasons(found)) == (
        {"a": ["default/single"]}, {"none": "POD_GROUP_MISSING", "bad": "POD_GROUP_INVALID"},
    )  # fmt: skip
    assert [note for note in found.answer.summary.notes if "pod group" in note] == [
        "pod group default/bad: PodGroup/default/bad: spec.schedulingPolicy.gang.minCount is missing: its 2 pods wait",
        "pod group default/none: PodGroup/default/none, which spec.schedulingGroup.podGroupName names, does not exist: "
        "its 2 pods wait until it does",
    ]


def test_a_group_of_1_37_waits_if_a_pod_has_another_priority_or_scheduling_gates() -> None:
    gated: Json = {"schedulingGates": [{"name": "wait"}]}
    groups = [GangRow("p", 2, priority=5), GangRow("q", 2, priority=0), GangRow("old", 2)]
    pods = [*members("p", 3), *members("q", 2), member("q2", "q", spec=gated), *members("old", 2)]
    pods.append(member("old2", "old", spec=gated | {"priority": 7}))
    found = plan_gangs(groups, pods, grows("a"))
    assert reasons(found) == {"p": "SEVERAL_PRIORITIES", "q": "MEMBER_GATED", "old": ""}
    assert [one.detail for one in found.decision.gangs if one.detail] == [
        "1 pod beyond its minimum without a place",
        "PodGroup/default/p has priority 5, and some of its pods have 0: none is scheduled",
        "PodGroup/default/q: a pod of it has scheduling gates: its 3 pods wait until it has none",
    ]


def test_a_gang_with_a_topology_key_is_in_one_zone_of_existing_or_new_nodes() -> None:
    groups = [grows("a", zone="za", most=2), grows("b", zone="zb", most=4, price=3.0)]
    found = plan_gangs([GangRow("g", 8, key=ZONE)], members("g", 8, "2"), groups, node("n", zone="za"))
    assert (found.growth, found.decision.gangs[0].domain) == ({"b": 4}, "zb")
    found = plan_gangs([GangRow("g", 6, key=ZONE)], members("g", 6, "2"), groups, node("n", zone="za"))
    assert (found.growth, found.decision.gangs[0].domain) == ({"a": 2}, "za")
    found = plan_gangs([GangRow("g", 10, key=ZONE)], members("g", 10, "2"), groups, node("n", zone="za"))
    assert (found.growth, reasons(found)) == ({}, {"g": "MAX_SIZE_REACHED"})


def test_a_gang_stays_in_the_domain_of_its_running_pods() -> None:
    running = [member("r", "g", "2", node="n", phase="Running")]
    groups = [grows("a", zone="za", most=2), grows("b", zone="zb", price=0.1)]
    found = plan_gangs([GangRow("g", 4, key=ZONE)], running, members("g", 3, "2"), groups, node("n", zone="za"))
    assert found.growth == {"a": 1}
    torn = [*running, member("r2", "g", "2", node="m", phase="Running")]
    found = plan_gangs(
        [GangRow("g", 4, key=ZONE)], torn, members("g", 3, "2"), groups, node("n", zone="za"), node("m", zone="zb")
    )
    assert reasons(found) == {"g": "SEVERAL_DOMAINS"}


def test_pods_of_a_basic_group_are_placed_each_by_itself() -> None:
    found = plan_gangs([GangRow("g")], members("g", 8, "2"), grows("a", most=3))
    assert found.growth == {"a": 3}
    assert len(found.decision.gangs) == 0


def test_gangs_that_fit_are_served_beside_one_that_asks_for_more_than_all_room() -> None:
    """Also if a pod that no node is large enough for waits with them."""
    gangs = [GangRow("small", 4), GangRow("vast", 40)]
    small = members("small", 4, "2", created="2026-01-02T00:00:00Z")
    vast = members("vast", 40, "2", created="2026-01-01T00:00:00Z")
    for others in ([], [pod("huge", "100")]):
        found = plan_gangs(gangs, small, vast, others, grows("a", most=3))
        assert (found.growth, reasons(found)) == ({"a": 2}, {"small": "", "vast": "MAX_SIZE_REACHED"})
