"""Room that kubectl shows as free may be held: a waiting pod's explanation says for whom."""

from pathlib import Path

from tests.builders import capacity_requests as requests
from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed

NOW = "2027-01-15T08:00:00Z"


def test_a_booking_that_holds_the_room_of_a_waiting_pod_is_named(trimtab: Run, tmp_path: Path) -> None:
    booked = requests.request("train", ("worker", 3), conditions=[requests.condition("Provisioned")])
    group = k8s.node_group("a", 0, 5, selector={"pool": "a"})
    file = listed(
        tmp_path, k8s.node("n1", "4", labels={"pool": "a"}), group, requests.pod_template("worker"), booked,
        k8s.pod("waits", "2"),
    )  # fmt: skip
    arguments = ("explain", file, "pod/default/waits", "--now", NOW)
    told = " ".join(trimtab(*arguments).out.split())
    assert "Node group a grows for it" in told
    held = "ProvisioningRequest default/train (3 pods)"
    assert f"Room on n1, which kubectl shows as free, is held for {held}." in told
    assert f"is held for {held}." in trimtab(*arguments, "-o", "json").out


def test_placeholders_are_not_named_where_the_pod_has_their_room(trimtab: Run, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("slack: {extraCapacityMinRate: 0.5}\n", encoding="utf-8")
    group = k8s.node_group("a", 0, 5, selector={"pool": "a"})
    file = listed(tmp_path, k8s.node("n1", "4", labels={"pool": "a"}), group, k8s.pod("waits", "3"))
    told = trimtab("explain", file, "pod/default/waits", "--now", NOW, "--settings", settings).out
    assert "it fits n1" in " ".join(told.split())
    assert "is held for" not in told
