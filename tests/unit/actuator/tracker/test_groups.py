"""Kept records of instance types: the latest of each type in each group, in bounded number."""

from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.events import NodeTypesSeen, decode, encode
from trimtab.actuator.tracker.groups import MOST_TYPES
from trimtab.actuator.tracker.states import NodeAmounts, SeenType
from trimtab.actuator.tracker.tracker import Tracker


def seen(group: str, kind: str, memory: int = 8) -> SeenType:
    amounts = NodeAmounts(2000, memory << 30, 29)
    return SeenType(group, kind, amounts, amounts, amounts)


def test_the_latest_sighting_replaces_only_the_same_type_in_the_same_group() -> None:
    tracker = Tracker()
    tracker.handle(NodeTypesSeen((seen("g", "a"), seen("h", "a"))), 1)
    event = decode(encode(NodeTypesSeen((seen("g", "a", 7),))))
    tracker.handle(event, 2)
    assert tracker.data.node_types == (seen("h", "a"), seen("g", "a", 7))
    assert Tracker.load(tracker.dump()).data.node_types == tracker.data.node_types


def test_the_types_seen_last_are_kept() -> None:
    tracker = Tracker()
    for number in range(MOST_TYPES + 2):
        tracker.handle(NodeTypesSeen((seen("g", str(number)),)), number)
    assert [one.instance_type for one in tracker.data.node_types[:1]] == ["2"]
    assert len(tracker.data.node_types) == MOST_TYPES


def test_a_machine_that_comes_back_under_the_id_of_one_that_never_registered_has_its_own_time() -> None:
    tracker = Tracker()
    tracker.handle(e.RegistrationNoted((("g", "x"),), ()), 0)
    planned = e.PlannedNode("x", "g", drain=False, provider_id="x")
    tracker.handle(e.InstancesAccepted("externalgrpc/1", (planned,)), 5_000)
    assert tracker.data.unregistered["x"].since_ms == 5_000
    tracker.handle(e.DeleteAccepted("x"), 6_000)
    tracker.handle(e.InstanceGone("x"), 7_000)
    tracker.handle(e.RegistrationNoted((("g", "x"),), ()), 8_000)
    assert tracker.data.unregistered["x"].since_ms == 8_000
