"""What a gang lacks, in one sentence, for people who ask about the plan or about one of its pods."""

from tests.builders.gangs import GangRow, gang_snapshot, members
from tests.builders.kubernetes import node, node_group
from tests.builders.scale_up import plan_message
from trimtab.clients.cli.answers.scale_up import gang_of, gang_sentence, lacking_lines
from trimtab.clients.cluster_view import ClusterView

GROUP = node_group("a", 0, 3, target=0, template=node("t", "4"))


def test_a_sentence_says_what_each_gang_lacks() -> None:
    message = gang_snapshot([GangRow("big", 8), GangRow("ok", 2)], members("big", 8, "2"), members("ok", 2, "2"), GROUP)
    decision = plan_message(message).decision
    assert list(lacking_lines(decision, every=False)) == [
        "1 gang can start whole: 2 pods, 2 of them on new nodes.",
        "Gang default/big gets no places: 2 of 8 pods that it needs have no place: a would help and is at the maximum "
        "size (MAX_SIZE_REACHED).",
    ]


def test_a_pod_is_explained_with_its_gang() -> None:
    message = gang_snapshot([GangRow("ok", 2)], members("ok", 2, "2"), GROUP)
    view, decision = ClusterView(message), plan_message(message).decision
    pod = view.pod("default/ok-001")
    assert pod is not None
    gang = gang_of(view, pod, decision)
    assert gang is not None
    assert gang_sentence(gang) == "default/ok can start whole: 2 of at least 2 pods have places."
