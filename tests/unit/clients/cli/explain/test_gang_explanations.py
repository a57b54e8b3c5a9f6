"""`trimtab explain … podgroup/NAMESPACE/NAME`: where the pods of a gang go, or what keeps it from starting whole. Room
that kubectl shows as free may be held: a waiting pod's explanation says for whom.
"""

from pathlib import Path

from tests.builders import capacity_requests as requests
from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed
from tests.builders.gangs import GangRow, gang_snapshot, member, members
from trimtab.clients.cli.blocks import plain_text
from trimtab.clients.cli.explain.gangs import GangExplanation, explain_gang, pod_group_sentences
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cluster_view import ClusterView
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

NEW = k8s.node("t", "4")


def explained(message: pb.ClusterSnapshot, key: str) -> tuple[list[str], GangExplanation]:
    """Return the lines about one group, and what they say."""
    view, request = ClusterView(message), plan_pb2.PlanRequest()
    request.now.seconds = 1_800_000_000
    with open_planner(None) as planner:
        found = explain_gang(planner, view, key, request)
    return [plain_text(one) for one in pod_group_sentences(view, found)], found


def test_of_a_gang_that_can_start_whole_each_place_is_listed_with_its_pods() -> None:
    group = k8s.node_group("a", 0, 3, target=0, template=NEW)
    message = gang_snapshot([GangRow("g", 3)], members("g", 3, "2"), k8s.node("n", "2"), group)
    lines, found = explained(message, "default/g")
    assert lines == [
        "Pod group default/g starts whole or not at all: at least 3 pods.",
        "Of its pods, 0 are on nodes and 3 wait.",
        "Gang default/g can start whole: 3 of at least 3 pods have places.",
        "  2 pods: to a new node of a (default/g-001, default/g-002)",
        "  1 pod: to node n (default/g-000)",
    ]
    assert found.places == {
        "default/g-000": "node n",
        "default/g-001": "a new node of a",
        "default/g-002": "a new node of a",
    }


def test_of_a_gang_that_cannot_start_node_groups_are_explained_for_each_kind_of_its_pods() -> None:
    group = k8s.node_group("a", 0, 1, target=0, template=NEW)
    message = gang_snapshot([GangRow("g", 4)], members("g", 3, "2"), member("head", "g", "8"), group)
    lines, found = explained(message, "default/g")
    assert lines[2].startswith("Gang default/g gets no places: 2 of 4 pods that it needs have no place")
    assert [line.partition(":")[0] for line in lines[3:]] == [
        "No place for 3 pods like default/g-000",
        "  1 node group (a)",
        "No place for pod default/head",
        "  1 node group (a)",
    ]
    assert "(GANG_INCOMPLETE)" in lines[4]
    assert "(INSUFFICIENT_RESOURCES)" in lines[6]
    assert [one.pod.key for _, one in found.kinds] == ["default/g-000", "default/head"]


def test_of_a_gang_that_runs_nodes_are_listed_with_why_they_stay() -> None:
    nodes = [k8s.node(name, "4") for name in ("n1", "n2")]
    owner = k8s.replica_set("job", replicas=2)
    pods = [member(f"g-{at}", "g", "3", node=f"n{at}", owner=owner) for at in (1, 2)]
    group = k8s.node_group("a", 0, 3, nodes=["n1", "n2"])
    lines, found = explained(gang_snapshot([GangRow("g", 2)], pods, nodes, owner, group), "default/g")
    assert lines[1] == "Of its pods, 2 are on nodes and 0 wait."
    assert lines[2:] == [
        f"  1 pod: on node {name}, which stays ({reason}) (default/g-{name[1]})"
        for name, reason in sorted(found.kept_reasons.items())
    ]
    assert found.result is None


def test_a_group_that_cannot_be_read_says_which_field_is_wrong() -> None:
    broken = GangRow("g", 2, problem="PodGroup default/g: spec.x: y")
    lines, _ = explained(gang_snapshot([broken], members("g", 2), k8s.node("n", "4")), "default/g")
    assert lines[2] == "It cannot be read, so its pods wait: PodGroup default/g: spec.x: y"


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
