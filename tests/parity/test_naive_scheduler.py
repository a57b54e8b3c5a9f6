"""The contract's snapshot contains all that the scheduler needs: the naive rules on it agree with the scheduler."""

from __future__ import annotations

import pytest

from tests.builders.examples import ALL
from tests.builders.notes import Note
from tests.parity.agreement import disagreement
from tests.parity.known_differences import KNOWN
from tests.parity.naive import NaiveCluster, fit_matrix
from tests.parity.recordings import NASTY, SETS, Recorded, nasty, objects, recorded, refusals, valid_part
from trimtab.clients.snapshots.objects import build_snapshot, decode_objects

EVERY = 1 if ALL else 10
"""One document of so many, of each set: all of them are for the planner, which is quicker."""
DOCUMENTS = [(name, document) for name in SETS for document in list(recorded(name))[EVERY // 2 :: EVERY]]


def _disagreements(one: Recorded) -> list[str]:
    snapshot = build_snapshot(decode_objects(objects(one.document))).snapshot
    if one.mode in ("matrix", "selfcheck"):
        verdicts = fit_matrix(snapshot, [answer["pod"] for answer in one.answers])
        return [
            f"{answer['pod']} on {node}: {text}"
            for answer in one.answers
            for node, expected in refusals(answer, one.node_names).items()
            if (text := disagreement(expected, verdicts[answer["pod"]][node]))
        ]
    cluster, found = NaiveCluster(snapshot), []
    for number, answer in enumerate(one.answers):
        for node, expected in refusals(answer, one.nodes_seen(answer)).items():
            text = disagreement(expected, cluster.verdict(cluster.waiting[answer["pod"]], node))
            if text:
                found.append(f"step {number}, {answer['pod']} on {node}: {text}")
        if answer["node"]:
            cluster.place(cluster.waiting[answer["pod"]], answer["node"])
    return found


@pytest.mark.parametrize(("name", "document"), DOCUMENTS, ids=[document for _, document in DOCUMENTS])
def test_the_naive_rules_answer_a_recorded_cluster_as_the_scheduler_did(name: str, document: str) -> None:
    assert _disagreements(recorded(name)[document]) == []


@pytest.mark.parametrize("name", NASTY)
def test_the_naive_rules_answer_a_nasty_case_as_the_scheduler_did(name: str, note: Note) -> None:
    found = _disagreements(valid_part(nasty(name)))
    if name in KNOWN:
        if not found:
            note(f"{name} agrees now; take it out of the table: {KNOWN[name]}")
    else:
        assert found == []
