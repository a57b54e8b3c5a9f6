"""What a scale-up decision says: which groups grow, for which pods, and why others stay pending."""

from tests.builders.kubernetes import Json, node, node_group, pod
from tests.builders.scale_up import plan


def group(name: str = "g", cpu: str = "4", most: int = 10, **more: object) -> Json:
    """A group without nodes whose new nodes have so many cores."""
    labels = more.pop("labels", {})
    template = node("t", cpu, zone=str(more.pop("zone", "")), labels=labels)  # type: ignore[arg-type]
    return node_group(name, 0, most, target=int(more.pop("target", 0)), template=template, nodes=[], **more)  # type: ignore


def test_a_group_grows_for_pods_without_room() -> None:
    found = plan(group(), [pod(f"p{i}", "2") for i in range(5)])
    assert found.growth == {"g": 3}
    assert found.result == "NEEDED"
    assert len(found.on_new["g"]) == 5


def test_free_room_is_used_first() -> None:
    found = plan(group(), node("n1"), [pod(f"p{i}", "2") for i in range(3)])
    assert found.growth == {"g": 1}
    assert dict(found.decision.on_existing) == {"default/p0": "n1", "default/p1": "n1"}


def test_a_pod_that_is_too_large_stays_pending() -> None:
    found = plan(group(), pod("p", "8"))
    assert found.pending == {"default/p": {"g": "INSUFFICIENT_RESOURCES"}}
    assert found.result == "NO_OPTIONS"
