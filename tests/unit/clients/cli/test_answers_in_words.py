"""The answer for any recorded cluster is plain text: every node counted once, no codes, no line above the given
width.
"""

import gzip
import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.builders.tiers import ci_but
from tests.parity.cluster_autoscaler_answers import settings_of
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.blockers import by_reason
from trimtab.clients.cli.answers.page import print_answer
from trimtab.clients.cli.blocks import AnswerPage
from trimtab.clients.cli.fit import fit_blocks
from trimtab.clients.cli.output import SafeConsole
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cli.terminal import print_page
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.planner_client import PlannerClient
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.v1 import plan_pb2, planner_pb2

ROOT = Path(__file__).parents[4]
WIDTH = 80
CODE = re.compile(r"\b[A-Z]+_[A-Z_]+\b")


def documents() -> list[Any]:
    """Return every fourth of the recorded clusters with all features that affect scale-down; the suite has every
    twelfth.
    """
    path = ROOT / "tests/parity/data/cluster_autoscaler/mixed.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        every_fourth = [json.loads(line)["document"] for number, line in enumerate(lines) if number % 4 == 0]
    return ci_but(every_fourth[::3], every_fourth)


@pytest.fixture(scope="module")
def planner() -> PlannerClient:
    with open_planner(None) as opened:
        return opened


def request(document: dict[str, Any]) -> plan_pb2.PlanRequest:
    built = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN])
    built.settings.CopyFrom(settings_of(document))
    built.now.FromJsonString(document["now"])
    return built


def printed(answer: PlanAnswer) -> str:
    out = StringIO()
    print_answer(SafeConsole(file=out, width=WIDTH, highlight=False), answer)
    return out.getvalue()


@pytest.mark.parametrize("document", documents(), ids=lambda document: document["name"])
def test_every_recorded_cluster_is_answered_in_words(planner: PlannerClient, document: dict[str, Any]) -> None:
    snapshot = build_snapshot(decode_objects(document["items"])).snapshot
    asked = request(document)
    response = planner.plan(snapshot, asked)
    view, now_ns = ClusterView(snapshot), asked.now.ToNanoseconds()
    brief = PlanAnswer(response, view, asked.settings, now_ns)
    text = printed(brief)
    assert not CODE.search(text)
    assert max(map(len, text.splitlines())) <= WIDTH
    going = len(response.scale_down.unneeded)
    assert text.startswith(f"{going} of {len(view.nodes)} node" if going else f"None of {len(view.nodes)} node")
    assert sum(map(len, by_reason(brief))) == len(view.nodes) - going
    verbose = printed(PlanAnswer(response, view, asked.settings, now_ns, verbose=True))
    assert all(node.node in verbose for node in response.nodes)


@pytest.mark.parametrize("document", documents()[::3], ids=lambda document: document["name"])
def test_every_pod_of_a_recorded_cluster_shows_what_keeps_it_from_each_node(
    planner: PlannerClient, document: dict[str, Any]
) -> None:
    snapshot = build_snapshot(decode_objects(document["items"])).snapshot
    asked, view = request(document), ClusterView(snapshot)
    asked.fit_pods.extend(sorted(view.pod_keys)[:20])
    answers: list[planner_pb2.CheckFitResponse] = list(planner.check_fit(snapshot, asked))
    out = StringIO()
    page = AnswerPage("", tuple(fit_blocks(view, answers)))
    print_page(SafeConsole(file=out, width=WIDTH, highlight=False), page, verbose=True)
    text = out.getvalue()
    assert not CODE.search(text)
    assert max(map(len, text.splitlines()), default=0) <= WIDTH
    for answer in answers:
        fitting = sum(node.fits for node in answer.nodes)
        assert f"fits {fitting or 'none'} of {len(answer.nodes)} node" in " ".join(text.split())
