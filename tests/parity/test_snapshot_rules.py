"""The contract's snapshot contains all that the scheduler needs: the certificates' rules agree with it."""

from __future__ import annotations

import pytest

from tests.builders.examples import ALL
from tests.builders.notes import Note
from tests.parity.agreement import disagreement
from tests.parity.known_differences import KNOWN
from tests.parity.recordings import NASTY, SETS, Recorded, nasty, objects, recorded, refusals, valid_part
from tests.parity.snapshot_rules import RuledCluster
from trimtab.common.objects import build_snapshot, decode_objects

EVERY = 1 if ALL else 20
"""One document of so many, of each set: all of them are for the planner, which is quicker."""
DOCUMENTS = [(name, document) for name in SETS for document in list(recorded(name))[EVERY // 4 :: EVERY]]


def _disagreements(one: Recorded) -> list[str]:
    compares = one.gates.get("TaintTolerationComparisonOperators", False)
    cluster = RuledCluster(build_snapshot(decode_objects(objects(one.document))).snapshot, compares)
    is_matrix = one.mode in ("matrix", "selfcheck")
    found = []
    for number, answer in enumerate(one.answers):
        pod, nodes = answer["pod"], one.node_names if is_matrix else one.nodes_seen(answer)
        for node, expected in refusals(answer, nodes).items():
            if text := disagreement(expected, cluster.verdict(pod, node)):
                found.append(f"answer {number}, {pod} on {node}: {text}")
        if not is_matrix and answer["node"]:
            cluster.place(pod, answer["node"])
    return found


@pytest.mark.parametrize(("name", "document"), DOCUMENTS, ids=[document for _, document in DOCUMENTS])
def test_the_rules_of_the_certificates_answer_a_recorded_cluster_as_the_scheduler_did(name: str, document: str) -> None:
    assert _disagreements(recorded(name)[document]) == []


@pytest.mark.parametrize("name", NASTY)
def test_the_rules_of_the_certificates_answer_a_nasty_case_as_the_scheduler_did(name: str, note: Note) -> None:
    found = _disagreements(valid_part(nasty(name)))
    if name in KNOWN:
        if not found:
            note(f"{name} agrees now; take it out of the table: {KNOWN[name]}")
    else:
        assert found == []
