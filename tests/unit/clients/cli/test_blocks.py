"""Blocks of an answer say the same on every printer: each sentence, cell and figure of each question is on the terminal
and on the page, and there are no other ones that a printer makes up.
"""

import html
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed
from tests.builders.demo import ready, shot
from tests.builders.replacement import WEB, group, web
from tests.builders.screens import cluster_objects, planned
from trimtab.clients.cli import printing
from trimtab.clients.cli.advice import advice_options
from trimtab.clients.cli.answers.actuation import status_blocks
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.page import plan_page
from trimtab.clients.cli.blocks import (
    AnswerPage,
    Block,
    ChangeList,
    Chart,
    DecisionList,
    Facts,
    Figures,
    Line,
    Maps,
    RecordedDecision,
    Sentence,
    Style,
    Table,
    plain_text,
)
from trimtab.clients.cli.demo.burst import DemoBurst
from trimtab.clients.cli.demo.evidence import Witness
from trimtab.clients.cli.demo.loop import Crash, Story
from trimtab.clients.cli.demo.verdict import RecordedAnswers, compared_with_recorded, first_answer, judge
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cli.report.page import rendered
from trimtab.clients.cli.several_clusters import PlannedCluster, clusters_page
from trimtab.clients.cli.simulate import command as simulate
from trimtab.clients.cli.sources import ClusterInput
from trimtab.clients.cli.terminal import print_page, table_on_terminal
from trimtab.v1 import actuator_pb2, plan_pb2

NOW = "2026-03-01T00:00:00Z"
D = plan_pb2.Decision


def asked(folder: Path, objects: list[object], *decisions: "D.Code.ValueType", prices: str = "") -> PlanAnswer:
    """Return the answer of a planner, with advice, all rows shown."""
    file = folder / "prices.csv"
    file.write_text(prices)
    options = CommandOptions((listed(folder, *objects),), now=NOW, prices=(file,) if prices else (), verbose=True)
    asked = options.ask(decisions)
    with open_planner(None) as planner:
        return asked.plan(planner, advice_options(is_brief=True))


def replaced(folder: Path) -> PlanAnswer:
    """Return a plan that replaces large nodes by small ones, with pods that wait."""
    large = [f"l{number}" for number in range(4)]
    pods = [web(f"p{at}{i}", name, "900m") for at, name in enumerate(large) for i in range(2)]
    waits = k8s.pod("waits", cpu="64")
    objects = [WEB, *group("large", "16", "64Gi", 1.0, large), *group("small", "4", "16Gi", 0.2, []), *pods, waits]
    prices = "group,price\nlarge,1.0\nsmall,0.2\n"
    return asked(folder, objects, D.SCALE_UP, D.SCALE_DOWN, D.REPLACEMENT, prices=prices)


def blocked(folder: Path) -> PlanAnswer:
    """Return a plan with a node that goes and one that local data keep, which advice would free."""
    owner, stored = k8s.replica_set("web", replicas=2), {"volumes": [{"name": "v", "emptyDir": {}}]}
    nodes = [k8s.node(node, labels={"pool": "a"}) for node in ("n1", "n2", "n3")]
    pods = [k8s.pod(f"web-{i}", node=f"n{i}", cpu=f"{i}", owner=owner, spec=stored) for i in (1, 2)]
    groups = [k8s.node_group("a", min_size=0, max_size=5, selector={"pool": "a"}, price=2.0)]
    return asked(folder, [*groups, *nodes, owner, *pods], D.SCALE_DOWN)


def texts_of(block: Block) -> Iterator[str]:
    """Yield every text and figure of a block."""
    if isinstance(block, Sentence):
        yield plain_text(block)
    elif isinstance(block, Facts):
        yield from block.texts
    elif isinstance(block, Figures):
        for figure in block.figures:
            yield from (figure.title, figure.value, figure.detail)
    elif isinstance(block, Table):
        yield from (block.title, block.note, *block.columns) if block.lines else ()
        for line in block.lines:
            yield from (*line.cells, *line.more, line.detail)
    elif isinstance(block, ChangeList):
        for one in block.changes:
            # A page has the sentence, of which a terminal has the parts.
            yield from (one.label, one.condition, one.month, one.nodes.strip("+-0"), one.steps, *one.lines)
    elif isinstance(block, Maps):
        yield from (text for one in block.maps for text in (one.title, one.description))
    elif isinstance(block, Chart):
        yield from (block.title, block.description)
    else:
        for decision in block.decisions:
            yield from (
                decision.time,
                decision.kind,
                decision.text,
                *(text for pair in decision.reasons for text in pair),
            )


def squeezed(text: str) -> str:
    return "".join(text.split()).lower()


def on_terminal(page: AnswerPage) -> str:
    console = Console(width=4000, file=io.StringIO(), record=True)
    print_page(console, page, verbose=True)
    return squeezed(console.export_text())


def on_page(page: AnswerPage) -> str:
    text = rendered(page)
    # What scripts fill in, and what screen readers get, is text as well.
    shown = re.sub(r"<(style)>.*?</\1>", " ", text, flags=re.DOTALL)
    labels = " ".join(re.findall(r'aria-label="([^"]*)"', shown))
    return squeezed(html.unescape(re.sub(r"<[^>]*>", " ", shown)) + " " + html.unescape(labels))


def several(folder: Path) -> AnswerPage:
    one = PlannedCluster(ClusterInput("shop"), planned())
    failed = PlannedCluster(ClusterInput("lost"), None, "it does not answer")
    (folder / "b").mkdir()
    other = PlannedCluster(ClusterInput("blocked"), blocked(folder / "b"))
    return clusters_page([one, other, failed], with_pictures=True)


def demo(answer: PlanAnswer) -> AnswerPage:
    """Return all that the demo says of a cluster in which a node was removed, and of an actuator that is at work."""
    before = shot(k8s.node("n1"), k8s.node("n2"), ready("a", "n1"), ready("b", "n2"))
    after = shot(k8s.node("n2"), ready("c", "n2"), ready("b", "n2"))
    burst = DemoBurst(after, before, after, peak_answer=answer, grown={"a": (1, 3)}, price_per_hour=4.5, served_s=7.0)
    crash = Crash(frozenset({"n1"}), 1, 2.5)
    ended = {"n1": actuator_pb2.NodeDeletion(node="n1", state=actuator_pb2.DeletionState.DELETED)}
    story = Story(before, after, Witness(before), {"n1"}, ended, [answer], crash, answer, burst)
    told = (compared_with_recorded(answer, RecordedAnswers("Cluster Autoscaler 1.36", 9, 1, 2.0, 3)),)
    status = actuator_pb2.ActuatorStatus(recent_evictions=[{"namespace": "shop", "name": "web-1", "node": "n1"}])
    status.deletions.add(node="n1", drain=True, state=actuator_pb2.DeletionState.DRAINING, pods_total_count=4)
    status.node_groups.add(id="a", instance_count=3, target_size=5, max_size=9, price_per_hour=0.5)
    status.replacements.add(stage=actuator_pb2.ReplacementStage.DONE, achieved_saving_per_hour=0.75)
    return AnswerPage("Demo", (*first_answer(answer), *told, *judge(story).blocks, *status_blocks(status, 60.0)))


def test_every_text_of_every_question_is_on_the_terminal_and_on_the_page(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b", "c", "d")]
    for one in folders:
        one.mkdir()
    decision = RecordedDecision("d-1", "2026-03-01", "scale-up", "pool-a grows", (("cost", "0.50 an hour more"),))
    pages = [
        plan_page(replace(planned(), verbose=True), "shop", with_pictures=True),
        plan_page(replaced(folders[0]), with_pictures=True),
        plan_page(blocked(folders[1]), with_pictures=True),
        several(folders[2]),
        demo(blocked(folders[3])),
        AnswerPage(
            "Over time", (DecisionList("Decisions", (decision,)), Chart("Pending pods", "Between 0 and 3.", "{}"))
        ),
    ]
    titles = {one.title for page in pages for one in page.blocks if isinstance(one, Table) and one.lines}
    assert {"What grows", "What stays pending", "What can go", "Waves", "What leaves", "Clusters"} <= titles
    kinds = {type(block) for page in pages for block in page.blocks}
    assert kinds == {Sentence, Facts, Figures, Table, ChangeList, Maps, Chart, DecisionList}
    for page in pages:
        terminal, shown = on_terminal(page), on_page(page)
        for block in (block for one in (page, *page.parts) for block in one.blocks):
            for text in texts_of(block):
                assert squeezed(text) in terminal, (type(block), text)
                assert squeezed(text) in shown, (type(block), text)


SCENARIO = """\
name: tiny
seed: 3
duration: 20m
nodeGroups: [{name: a, size: 3, maxSize: 5, price: 0.5}]
workloads: [{name: web, replicas: 2, pod: {cpu: 500m}}]
"""
OFFERS = "instance_type,cpu,memory_gib,zone,price,currency\nm5.large,2,8,z1,0.25,USD\nm5.huge,96,384,z1,9,USD\n"
CLUSTER, OTHER = "{cluster}", "{other}"


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("explain", CLUSTER, "node/b-1"), id="a node that goes"),
        pytest.param(("explain", CLUSTER, "node/a-2"), id="a node that stays"),
        pytest.param(("explain", CLUSTER, "pod/default/batch-0"), id="a pod that gets a new node"),
        pytest.param(("explain", CLUSTER, "pod/default/huge"), id="a pod that stays pending"),
        pytest.param(("explain", CLUSTER, "rs/default/web"), id="a workload"),
        pytest.param(("explain", CLUSTER, "slack", "--set", "slack.extraCapacityMinRate=0.5"), id="slack"),
        pytest.param(("explain", CLUSTER, "fit"), id="fits"),
        pytest.param(("advise", CLUSTER), id="advice"),
        pytest.param(("advise", "--cluster", "one={cluster}", "--cluster", "other={other}"), id="advice on clusters"),
        pytest.param(("rightsize", CLUSTER, "--offers", "{offers}", "--arch", "any", "--level", "any"), id="sizes"),
        pytest.param(("simulate", "{scenario}", "--settings", "upstream", "--recommend"), id="simulation"),
    ],
)
def test_every_command_prints_blocks_with_the_same_texts_on_the_terminal_and_on_a_page(
    trimtab: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    printed = list[AnswerPage]()

    def take(console: Console, page: AnswerPage, *, verbose: bool = False) -> None:
        printed.append(page)
        print_page(console, page, verbose=verbose)

    for module in (printing, simulate):
        monkeypatch.setattr(module, "print_page", take)
    (tmp_path / "other").mkdir()
    files = {
        "cluster": listed(tmp_path, *cluster_objects()),
        "other": listed(tmp_path / "other", *cluster_objects()),
        "offers": tmp_path / "offers.csv",
        "scenario": tmp_path / "tiny.yaml",
    }
    files["offers"].write_text(OFFERS)
    files["scenario"].write_text(SCENARIO)
    done = trimtab(*(one.format(**files) for one in arguments), *(("--now", NOW) if arguments[0] != "simulate" else ()))
    assert done.code == 0, done.err
    (page,) = printed
    terminal, shown = on_terminal(page), on_page(page)
    texts = [text for block in page.blocks for text in texts_of(block)]
    assert len(texts) > 1
    for text in texts:
        assert squeezed(text) in terminal, text
        assert squeezed(text) in shown, text
    assert re.findall(r"[0-9]+[.,]?[0-9]*", terminal), "there are figures"


def test_a_new_fact_is_added_in_one_place(tmp_path: Path) -> None:
    page = plan_page(blocked(tmp_path))
    told = AnswerPage(page.title, (*page.blocks, Sentence("A new fact: 4711.")))
    assert "anewfact:4711." in on_terminal(told)
    assert "anewfact:4711." in on_page(told)


@pytest.mark.parametrize(("most", "shown"), [(0, 3), (2, 2)])
def test_a_terminal_shows_so_many_rows_and_says_how_many_there_are(most: int, shown: int) -> None:
    table = Table("Nodes", ("node", "an hour"), tuple(Line((f"n{i}", "1.00")) for i in range(3)), most=most)
    assert table_on_terminal(table).row_count == shown
    assert (str(table_on_terminal(table).title) == "Nodes: 2 of 3 (--verbose shows all)") == (most == 2)
    assert table_on_terminal(table, verbose=True).row_count == 3


def test_a_page_names_a_row_by_its_heading() -> None:
    table = Table("Why", ("nodes", "because"), (Line(("3", "a budget")),), heading=1)
    assert table.by_heading.columns == ("because", "nodes")
    assert table.by_heading.lines[0].cells == ("a budget", "3")


def test_names_cannot_style_a_terminal() -> None:
    name = "[red]node[/red]"
    page = AnswerPage("", (Sentence(name, Style.HEADLINE), Table(name, (name,), (Line((name,), (name,), name),))))
    console = Console(width=200, file=io.StringIO(), record=True)
    print_page(console, page, verbose=True)
    assert console.export_text().count(name) == 6
