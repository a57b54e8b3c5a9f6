"""`trimtab plan`, `explain` and `report` on replacement: the lines of money, waves, plans from careful to bold, and
what keeps nodes.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.builders.cli import Run, listed
from tests.builders.replacement import WEB, group, web
from tests.unit.clients.cli.report.pages import page_of
from trimtab.clients.cli.answers.replacement import FRONTIER_COLUMNS, HINT, frontier_rows
from trimtab.v1 import plan_pb2

NOW = ("--now", "2026-03-01T00:00:00Z")
BOTH = ("--decision", "scale-down", "--decision", "replacement")
STORED = {"volumes": [{"name": "v", "emptyDir": {}}]}
LARGE = [f"l{number}" for number in range(4)]
TABLE = """\
None of 5 nodes can go.
Prices in USD: 5 nodes by group in prices.csv.

What keeps nodes
nodes  an hour  a month  because
    5     4.60    3,358  utilization above the threshold of 1 % (such as k0)
Lifting a reason frees less than its nodes cost: their pods need room elsewhere.

Replacement: 4 nodes leave, 4 new nodes come, in 2 waves. That saves 3.20 of 4.60 USD an hour (70 %), 2,336 a month.

What the cluster costs
                                       an hour  a month
now                                       4.60    3,358
scale-down alone                          4.60    3,358
with replacement                          1.40    1,022
no cluster of these node groups below     1.37    1,004

Waves
wave  new nodes   nodes that leave  pods moved  saves an hour  cost then
   1  2 of small  2: l0, l1                  8           1.60       3.00
   2  2 of small  2: l2, l3                  8           1.60       1.40
The new nodes of a wave are ready before its first pod is evicted; a wave begins when the pods of the wave before run \
again.

What leaves
node  node group  an hour  pods  wave  its pods go to
l0    large          1.00     4     1  small#0 (2), small#1 (2)
l1    large          1.00     4     1  small#0 (2), small#1 (2)
l2    large          1.00     4     2  small#2 (2), small#3 (2)
l3    large          1.00     4     2  small#2 (2), small#3 (2)

From careful to bold
waves  leave  come  pods  an hour  a month  Balanced  pays in  stopped by
    1      2     2     8     1.60    1,168      0.80    3 min
    2      4     4    16     3.20    2,336      0.80    3 min  chosen; no more saves anything

What keeps the other node with a price
nodes  an hour at most  because
    1             0.60  a pod keeps data on the node (emptyDir or hostPath) (such as default/k)
What replacing each node alone would save at most, if the condition were lifted.
"""


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Write four large nodes with pods for one small node each, a group of small ones, and a node that must stay."""
    pods = [web(f"{name}-{i}", name) for name in LARGE for i in range(4)]
    groups = [*group("large", "16", "64Gi", 1.0, LARGE), *group("small", "4", "16Gi", 0.2)]
    stays = [*group("keeps", "8", "32Gi", 0.6, ["k0"]), web("k", "k0", "7500m", spec=STORED)]
    return listed(tmp_path, WEB, *groups, *stays, *pods)


@pytest.fixture
def options(tmp_path: Path) -> tuple[Any, ...]:
    """Write settings with which scale-down finds nothing, and replacement has two waves; and prices in a currency."""
    settings, prices = tmp_path / "settings.yaml", tmp_path / "prices.csv"
    settings.write_text(
        "scaleDown: {utilizationThreshold: 0.01}\nreplacement: {maxLeavingNodes: 2, pricePerEviction: 0.01}\n"
    )
    prices.write_text("group,price,currency\nlarge,1.0,USD\nsmall,0.2,USD\nkeeps,0.6,USD\n")
    return ("--settings", settings, "--prices", prices, *NOW)


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def test_a_plan_shows_money_waves_plans_from_careful_to_bold_and_what_keeps_nodes(
    trimtab: Run, cluster: Path, options: tuple[Any, ...]
) -> None:
    outcome = trimtab("plan", "--no-advice", cluster, *options, "--no-advice")
    assert outcome.code == 0, outcome.err
    assert lines(outcome.out) == lines(TABLE)


def test_settings_of_replacement_ask_for_it_and_a_decision_does(
    trimtab: Run, cluster: Path, options: tuple[Any, ...]
) -> None:
    by_settings = trimtab("plan", "--no-advice", cluster, *options, "-o", "json").document()
    assert {"scaleUp", "scaleDown", "replacement"} <= set(by_settings)
    alone = trimtab("plan", "--no-advice", cluster, *NOW, "--decision", "replacement", "-o", "json").document()
    assert "scaleDown" not in alone
    decision = alone["replacement"]
    assert decision["result"] == "REPLACEMENT_PLANNED"
    (figures,) = alone["summary"]["decisions"]
    assert figures["decision"] == "REPLACEMENT"
    assert 0 < figures["savedPerHour"] - figures["boughtPerHour"] <= figures["mostSavedPerHour"]
    assert [one["node"] for wave in decision["waves"] for one in wave["leaving"]] == LARGE


def test_without_scale_down_the_money_has_no_line_for_it(trimtab: Run, cluster: Path) -> None:
    out = " ".join(trimtab("plan", "--no-advice", cluster, *NOW, "--decision", "replacement").out.split())
    assert "an hour a month now 4.60 3,358 with replacement 1.40 1,022 no cluster of these" in out


def test_a_plan_without_it_says_how_to_ask_only_where_node_groups_have_different_prices(
    trimtab: Run, cluster: Path, tmp_path: Path
) -> None:
    assert f"Note: {HINT}" in trimtab("plan", "--no-advice", cluster, *NOW).out
    assert HINT not in trimtab("plan", "--no-advice", cluster, *NOW, *BOTH).out
    one = listed(tmp_path, WEB, *group("a", "4", "16Gi", 0.2, ["x"]), web("p", "x"), name="one.json")
    assert HINT not in trimtab("plan", "--no-advice", one, *NOW).out
    unpriced = [*group("a", "4", "16Gi", None, ["x"]), *group("b", "4", "16Gi", None)]
    assert HINT not in trimtab("plan", "--no-advice", listed(tmp_path, *unpriced, name="none.json"), *NOW).out


@pytest.mark.parametrize(
    ("objects", "settings", "text"),
    [
        pytest.param(
            [*group("a", "4", "16Gi", None, ["x"])], "{}",
            "No node is replaced: no node, or no node group that may grow, has a price (no node of a node group with "
            "price_per_hour: give prices of node groups).", id="no prices",
        ),
        pytest.param(
            [*group("a", "4", "16Gi", 1.0, ["x"]), *group("b", "4", "16Gi", 0.1)], "replacement: {enabled: false}",
            "No node is replaced: replacement is switched off.", id="switched off",
        ),
        pytest.param(
            [*group("a", "4", "16Gi", 0.2, ["x"]), *group("b", "4", "16Gi", 0.2)], "{}",
            "No node is replaced: no replacement saves enough, or none is possible.", id="equal prices",
        ),
        pytest.param(
            [*group("a", "4", "16Gi", 1.0, ["x"]), *group("b", "4", "16Gi", 0.1)],
            "planner: {disruptionBudgets: [{maxNodes: '0'}]}",
            "No node is replaced: limits or budgets allow no replacement now (a budget for nodes allows no more to "
            "leave).", id="a budget",
        ),
    ],
)  # fmt: skip
def test_a_plan_without_waves_says_why_in_words(
    trimtab: Run, tmp_path: Path, objects: list[dict[str, Any]], settings: str, text: str
) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(settings)
    file = listed(tmp_path, WEB, *objects, web("p", "x", "3"))
    out = trimtab("plan", "--no-advice", file, *NOW, "--settings", path, "--decision", "replacement").out
    assert text in " ".join(out.split())


def test_a_node_whose_pods_have_room_on_others_leaves_without_a_new_one(trimtab: Run, tmp_path: Path) -> None:
    nodes = [*group("large", "16", "64Gi", 1.0, ["l0"]), *group("small", "4", "16Gi", 0.2, ["s0"], max_size=1)]
    file = listed(tmp_path, WEB, *nodes, web("p", "l0"), web("q", "s0", spec=STORED))
    asked = tmp_path / "asked.yaml"
    asked.write_text("scaleDown: {utilizationThreshold: 0.01}")
    text = " ".join(trimtab("explain", file, "node/l0", *NOW, "--settings", asked).out.split())
    assert "Scale-down keeps it:" in text
    assert "With `--decision replacement`, this node would leave in wave 1 of 1, saving 1.00 an hour" in text
    assert "It costs 1.00 an hour now." in text


def test_nodes_without_a_price_are_counted(trimtab: Run, tmp_path: Path) -> None:
    groups = [*group("large", "16", "64Gi", 1.0, ["l0"]), *group("small", "4", "16Gi", 0.2)]
    unpriced = group("unknown", "2", "8Gi", None, ["u0"])
    file = listed(tmp_path, WEB, *groups, *unpriced, web("p", "l0"), web("u", "u0"))
    out = trimtab("plan", "--no-advice", file, *NOW, "--decision", "replacement").out
    assert "1 node is of no node group with a price: it stays, and is in no sum." in out


def test_the_explanation_of_a_node_says_by_what_and_when_it_is_replaced(
    trimtab: Run, cluster: Path, options: tuple[Any, ...]
) -> None:
    out = trimtab("explain", cluster, "node/l3", *options).out
    text = " ".join(out.split())
    assert (
        "2 new nodes (2 of small, 0.40 USD an hour) replace this node and 1 other in wave 2 of 2, saving 1.60" in text
    )
    assert "It costs 1.00 USD an hour now." in text
    assert "It stays" not in text
    assert "The wave begins once the pods of wave 1 run again." in text
    assert "2 pods → small#3" in text
    verdict = trimtab("explain", cluster, "node/l3", *options, "-o", "json").document()["verdict"]
    assert (verdict["fate"], verdict["wave"], verdict["replacedBy"]) == ("REPLACED", 2, ["small#2", "small#3"])


def test_the_explanation_of_a_node_names_the_condition_that_keeps_it_and_what_that_costs(
    trimtab: Run, cluster: Path, options: tuple[Any, ...]
) -> None:
    text = " ".join(trimtab("explain", cluster, "node/k0", *options).out.split())
    assert (
        "It is not replaced: a pod keeps data on the node (emptyDir or hostPath) (NODE_NOT_REMOVABLE). "
        "Pod default/k is in the way. "
        "Without that condition, replacing it alone would save at most 0.60 USD an hour, 438 a month."
    ) in text
    verdict = trimtab("explain", cluster, "node/k0", *options, "-o", "json").document()["verdict"]
    assert (verdict["wave"], verdict["notReplaced"]["reason"]) == (0, "NODE_NOT_REMOVABLE")


def test_an_explanation_asks_for_replacement_only_where_the_price_of_the_node_is_known(
    trimtab: Run, cluster: Path, tmp_path: Path
) -> None:
    assert "notReplaced" in trimtab("explain", cluster, "node/k0", *NOW, "-o", "json").document()["verdict"]
    unpriced = listed(tmp_path, WEB, *group("a", "4", "16Gi", None, ["x"]), web("p", "x"), name="unpriced.json")
    assert "notReplaced" not in trimtab("explain", unpriced, "node/x", *NOW, "-o", "json").document()["verdict"]


def test_the_page_shows_money_waves_the_frontier_and_what_keeps_nodes(
    trimtab: Run, cluster: Path, options: tuple[Any, ...], tmp_path: Path
) -> None:
    page = page_of(trimtab, tmp_path, cluster, *options)
    text = page.text
    assert "Replacement: 4 nodes leave, 4 new nodes come, in 2 waves." in text
    assert "now 4.60 3,358 scale-down alone 4.60 3,358 with replacement 1.40 1,022" in text
    assert "2 2 of small 2: l2, l3 8 1.60 1.40" in text
    assert "l3 large 1.00 4 2 small#2 (2), small#3 (2)" in text
    assert "Now 3,358 USD 5 nodes, a month After the plan 1,022 USD 5 nodes (4 removed, 4 added)" in text
    assert "k0: 0.60, default/k" in text
    (figure,) = page.figures()
    by_name = {trace["name"]: trace for trace in figure["data"]}
    assert (by_name["plans"]["x"], by_name["plans"]["y"]) == ([0, 8, 16], [4.6, 3.0, 1.4])
    assert (by_name["chosen"]["x"], by_name["chosen"]["y"]) == ([16], [1.4])
    assert by_name["no cluster below"]["y"] == pytest.approx([1.375, 1.375], abs=0.01)
    cells = [str(attributes["data-text"]) for _, attributes in page.elements if "data-text" in attributes]
    assert [cell for cell in cells if cell.startswith("new node small#1: 100 % of cpu")]


def test_a_page_without_it_has_no_section(trimtab: Run, cluster: Path, tmp_path: Path) -> None:
    page = page_of(trimtab, tmp_path, cluster, *NOW)
    assert "Waves" not in page.text
    assert page.figures() == []


def test_plans_from_careful_to_bold_say_how_many_gangs_they_disturb() -> None:
    options = [
        plan_pb2.ReplacementOption(evicted_pod_count=24),
        plan_pb2.ReplacementOption(evicted_pod_count=2400, disturbed_gang_count=2),
    ]
    rows = frontier_rows(plan_pb2.ReplacementDecision(frontier=options))
    at = FRONTIER_COLUMNS.index("pods")
    assert [row[at] for row in rows] == ["24", "2,400 (2 gangs)"]
