"""Our predicates give the answers that the real kube-scheduler gave, on every recorded cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.builders.notes import Note
from tests.builders.tiers import ci_but, nightly_but
from tests.parity import ours
from tests.parity.agreement import PLUGIN_OF, SCHEDULER_ORDER, disagreement
from tests.parity.known_differences import KNOWN
from tests.parity.recordings import (
    NASTY,
    SETS,
    Recorded,
    key_of,
    nasty,
    objects,
    pending,
    recorded,
    refusals,
    valid_part,
)

ROOT = Path(__file__).parents[2]
DOCUMENTS = [(name, document) for name in SETS for document in recorded(name)]
ONE_OF_EACH = [(name, next(iter(recorded(name)))) for name in SETS]
IN_SUITE = frozenset([*DOCUMENTS[::6], *ONE_OF_EACH])
SHOWN = 20


def _nothing(found: list[str]) -> None:
    assert not found, f"{len(found)} disagreements:\n" + "\n".join(found[:SHOWN])


def _matrix(one: Recorded, half_virtual: bool = False) -> list[str]:
    return _compare_matrix(one, [key_of(pod) for pod in pending(one.document)], half_virtual)


def _selfcheck(one: Recorded, half_virtual: bool = False) -> list[str]:
    return _compare_matrix(one, [answer["pod"] for answer in one.answers], half_virtual)


def _compare_matrix(one: Recorded, asked: list[str], half_virtual: bool) -> list[str]:
    matrix = ours.half_virtual_matrix if half_virtual else ours.fit_matrix
    verdicts, found = matrix(objects(one.document), asked, one.gates), []
    for answer in one.answers:
        for node, expected in refusals(answer, one.node_names).items():
            text = disagreement(expected, verdicts[answer["pod"]][node])
            if text:
                found.append(f"{answer['pod']} on {node}: {text}")
    return found


def _simulate(one: Recorded, half_virtual: bool = False) -> list[str]:
    """Place each pod on the first node that takes it, on both sides; compare every node checked before as well."""
    order = one.document.get("nodeOrder", one.node_names)
    asked = [key_of(pod) for pod in pending(one.document)]
    steps = ours.simulate(objects(one.document), asked, order, half_virtual, one.gates)
    found = []
    for number, (answer, step) in enumerate(zip(one.answers, steps, strict=True)):
        for node, expected in refusals(answer, one.nodes_seen(answer)).items():
            text = disagreement(expected, step.verdicts[node]) if node in step.verdicts else "we did not come to it"
            if text:
                found.append(f"step {number}, {answer['pod']} on {node}: {text}")
        if step.node != answer["node"]:
            found.append(
                f"step {number}, {answer['pod']}: placed on {step.node!r}, by the scheduler {answer['node']!r}"
            )
            break
    return found


def _verify(one: Recorded, half_virtual: bool = False) -> list[str]:
    placements = [(p["pod"], p["node"]) for p in one.document["placements"]]
    verdicts = ours.verify(objects(one.document), placements, half_virtual, one.gates)
    found = []
    for number, (answer, verdict) in enumerate(zip(one.answers, verdicts, strict=True)):
        text = disagreement(refusals(answer, [answer["node"]])[answer["node"]], verdict)
        if text:
            found.append(f"step {number}, {answer['pod']} on {answer['node']}: {text}")
    return found


ASK = {"matrix": _matrix, "selfcheck": _selfcheck, "simulate": _simulate, "verify": _verify}


def test_every_reason_stands_for_a_scheduler_plugin() -> None:
    assert set(PLUGIN_OF.values()) == set(SCHEDULER_ORDER)


@pytest.mark.parametrize(("name", "document"), ci_but(IN_SUITE, DOCUMENTS), ids=[document for _, document in DOCUMENTS])
def test_we_answer_a_recorded_cluster_as_the_scheduler_did(name: str, document: str) -> None:
    one = recorded(name)[document]
    _nothing(ASK[one.mode](one))


@pytest.mark.parametrize(
    ("name", "document"), nightly_but(ONE_OF_EACH, DOCUMENTS), ids=[document for _, document in DOCUMENTS]
)
def test_we_answer_alike_with_half_of_the_nodes_virtual(name: str, document: str) -> None:
    one = recorded(name)[document]
    _nothing(ASK[one.mode](one, True))


@pytest.mark.parametrize("name", NASTY)
def test_we_answer_a_nasty_case_as_the_scheduler_did(name: str, note: Note) -> None:
    one = valid_part(nasty(name))
    found = ASK[one.mode](one)
    if name in KNOWN:
        if not found:
            note(f"{name} agrees now; take it out of the table: {KNOWN[name]}")
    else:
        _nothing(found)


REFUSED = [(name, what) for name in NASTY for what in sorted(nasty(name).invalid)]


@pytest.mark.parametrize(("name", "what"), REFUSED, ids=[f"{name}-{what.split('/')[-1]}" for name, what in REFUSED])
def test_what_the_api_server_refuses_is_refused_by_name_or_decided_as_the_scheduler_would(name: str, what: str) -> None:
    alone = valid_part(nasty(name), only=what)
    refusal = ours.refusal(objects(alone.document))
    if refusal:
        assert what.rsplit("/", maxsplit=1)[-1] in refusal
        assert "spec" in refusal
    else:
        _nothing(_matrix(alone))


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_the_pages_count_the_recorded_answers(page: str) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    ((clusters, cases),) = re.findall(r"recorded answers to ([\d,]+) clusters,? and (\d+) cases by hand", text)
    assert (int(clusters.replace(",", "")), int(cases)) == (len(DOCUMENTS), len(NASTY))
