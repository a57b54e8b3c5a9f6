"""The page of a plan over a cluster: what `trimtab plan` decides, with maps, and what it costs."""

import re
from pathlib import Path

import pytest

from tests.builders import karpenter as kp
from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed
from tests.unit.clients.cli.report.pages import Reader, page_of
from trimtab.clients.cli.blocks import (
    AnswerPage,
    Bar,
    ChangeLine,
    ChangeList,
    Chart,
    Facts,
    Figures,
    KeyFigure,
    Line,
    Sentence,
    Style,
    Table,
)
from trimtab.clients.cli.plot_figure import PlotFigure
from trimtab.clients.cli.report.page import rendered
from trimtab.common.documents.output import is_visible, visible

NOW = "2026-03-01T00:00:00Z"


def test_a_map_shows_the_nodes_that_stay_with_the_pods_they_receive(trimtab: Run, tmp_path: Path) -> None:
    owner = k8s.replica_set("web", replicas=3)
    nodes = [k8s.node(name, cpu="4", labels={"pool": "a"}) for name in ("n1", "n2")]
    pods = [k8s.pod(f"web-{i}", cpu="1", node=node, owner=owner) for i, node in enumerate(("n1", "n2", "n2"))]
    group = k8s.node_group("a", min_size=0, max_size=5, selector={"pool": "a"})
    settings = tmp_path / "quick.yaml"
    settings.write_text("scaleDown: {unneededTime: 0s, utilizationThreshold: 0.6}\n")
    files = (listed(tmp_path, *nodes, owner, *pods, group), "--settings", settings, "--now", NOW)
    page = page_of(trimtab, tmp_path, *files)
    texts = [attributes["data-text"] for _, attributes in page.elements if "data-text" in attributes]
    cpu = [str(text).partition(" of cpu")[0] for text in texts]
    assert cpu in (["n2: 50 %", "n1: 25 %", "n2: 75 %"], ["n2: 50 %", "n1: 25 %", "n1: 75 %"])


def test_a_cluster_shows_what_could_be_saved_and_what_blocks_it_by_money(trimtab: Run, tmp_path: Path) -> None:
    owner, held = k8s.replica_set("web", replicas=1), k8s.replica_set("held", replicas=1)
    group = k8s.node_group("a", selector={"pool": "a"})
    group["spec"] = {"minSize": 0, "maxSize": 5, "nodeSelector": {"pool": "a"}, "price": 0.7}
    objects = [
        *[k8s.node(name, labels={"pool": "a"}) for name in ("n1", "n2", "n3")],
        *(owner, held, group),
        *k8s.pods_of(owner, 1, cpu="100m", node="n1"),
        *k8s.pods_of(held, 1, cpu="100m", node="n2"),
        k8s.pdb("strict", 0, labels=held["spec"]["selector"]["matchLabels"], min_available=1),
    ]
    settings = tmp_path / "quick.yaml"
    settings.write_text("scaleDown: {unneededTime: 0s}\n")
    page = page_of(trimtab, tmp_path, listed(tmp_path, *objects), "--settings", settings, "--now", NOW)
    assert "2 of 3 nodes can go (67 %). That saves 1.40 of 2.10 an hour (67 %), 1,022 a month." in page.text
    assert "no price" not in page.text
    assert "budget default/strict" in page.text
    assert "0.70 511" in page.text


@pytest.mark.ci
def test_a_report_decides_as_a_plan_does_on_pods_that_wait(trimtab: Run, tmp_path: Path) -> None:
    """Alone, scale-down would remove the node that the waiting pods need, and would say nothing of the others."""
    web, kind = k8s.replica_set("web", replicas=4), {"pool": "a"}
    group = k8s.node_group("a", min_size=0, max_size=3, selector=kind, price=0.5)
    waiting = [k8s.pod(f"web-{i}", cpu=cpu, owner=web) for i, cpu in enumerate(("3", "3", "3", "30"))]
    cluster = listed(tmp_path, *(k8s.node(name, cpu="4", labels=kind) for name in ("n1", "n2")), web, group, *waiting)
    settings = tmp_path / "quick.yaml"
    settings.write_text("scaleDown: {unneededTime: 0s}\n")
    answer = trimtab("plan", cluster, "--settings", settings, "--now", NOW, "-o", "json").document()
    page = page_of(trimtab, tmp_path, cluster, "--settings", settings, "--now", NOW)
    assert (len(answer["scaleUp"]["onExisting"]), answer["scaleDown"]["unneeded"]) == (2, [])
    for text in (
        "1 node group grows by 1 node for 1 pod. That costs 0.50 an hour (1.00 → 1.50), 365 a month.",
        "2 pending pods fit on existing nodes.",
        "None of 2 nodes can go.",
        "What grows node group nodes at most pods an hour a month because a 2 → 3 3 1 0.50 365 cheapest plan",
        "What stays pending of pods because ReplicaSet default/web a: INSUFFICIENT_RESOURCES default/web-3 1 no",
    ):
        assert text in page.text
    names = [
        str(attributes["data-text"]).partition(",")[0] for _, attributes in page.elements if "data-text" in attributes
    ]
    assert sorted(names) == [
        *("n1: 0 % of cpu", "n1: 75 % of cpu", "n2: 0 % of cpu", "n2: 75 % of cpu"),
        "new node 1 of a: 75 % of cpu",
    ]


def test_a_page_counts_nodes_outside_of_groups_and_says_which_have_no_price(trimtab: Run, tmp_path: Path) -> None:
    """Masters cost money, too: without them the share of what can be saved is overstated."""
    kinds = {"m1": "m5", "m2": "m5", "odd": "strange", "n1": "m5", "n2": "m5"}
    nodes = [
        k8s.node(
            name,
            labels={
                "node.kubernetes.io/instance-type": kind,
                **({} if name.startswith("n") else {"node-role.kubernetes.io/control-plane": ""}),
            },
        )
        for name, kind in kinds.items()
    ]
    prices = tmp_path / "prices.csv"
    prices.write_text("type,price\nm5,0.25\n")
    cluster = listed(tmp_path, *nodes)
    page = page_of(trimtab, tmp_path, cluster, "--prices", prices)
    saving = "That saves 0.50 of 1.00 an hour (50 %), 365 a month"
    assert saving in page.text
    assert "1 of 5 nodes has no price: sums and shares leave it out." in page.text
    assert "in no node group (such as m1) 3 0.50 365" in page.text
    told = " ".join(trimtab("plan", cluster, "--prices", prices).out.split())
    assert f"{saving}. Optimised for cost" in told
    assert "1 of 5 nodes has no price: sums and shares leave it out." in told


def test_a_page_has_the_prices_of_a_file_of_offers(trimtab: Run, tmp_path: Path) -> None:
    offers = tmp_path / "offers.csv"
    offers.write_text(kp.CATALOG)
    cluster = listed(tmp_path, kp.node_pool(), kp.pool_node("n1"), kp.pool_node("n2"))
    page = page_of(trimtab, tmp_path, cluster, "--offers", offers, "--now", NOW)
    assert "0.21 an hour" in page.text
    assert "assumed" not in page.text


def test_a_cluster_without_prices_says_which_ones_are_assumed(trimtab: Run, tmp_path: Path) -> None:
    group = k8s.node_group("a", selector={"pool": "a"})
    nodes = [k8s.node(name, labels={"pool": "a"}) for name in ("n1", "n2")]
    settings = tmp_path / "quick.yaml"
    settings.write_text("scaleDown: {unneededTime: 0s}\n")
    objects = listed(tmp_path, *nodes, k8s.node("n3"), group)
    page = page_of(trimtab, tmp_path, objects, "--settings", settings, "--now", NOW)
    assumed = "assumed: 0.03 a core and 0.004 a GiB of memory an hour; --prices gives yours"
    assert page.text.count(assumed) == len(["facts", "headline"])
    assert "3 nodes, assumed prices" in page.text


CHART = '{"data":[],"layout":{"xaxis":{},"yaxis":{"title":{"text":"x"}}}}'


def test_advice_stands_after_the_bars_then_the_other_blocks_in_their_order() -> None:
    line = Line(("1", "a budget"), ("budget a/b: 1 node",), bar=Bar("A budget", "511", 1.0))
    bars = Table("What keeps the others", ("nodes", "because"), (line,), bars="What keeps nodes")
    lines = ("kubectl patch pdb b -n a", "set scaleDown.enabled: true")
    change = ChangeLine("+1", "511", "b let 1 pod go", "If b let 1 pod go, …", "", lines, "together")
    advice = ChangeList("What to change", "From 9 plans.", (change,))
    other = Table("What grows", ("group", "nodes"), (Line(("g", "1 → 2")),))
    charts = [Chart("Pending pods", "None.", CHART)]
    figures, frontier = Figures((KeyFigure("Now", "1"),)), Chart("Frontier", "Cheaper types.", CHART)
    page = AnswerPage("t", (Sentence("h", Style.HEADLINE), frontier, other, *charts, advice, bars, figures))
    reader = Reader(rendered(page))
    words = (
        *("h", "A budget", "What to change", "From 9 plans.", "Together: If b", "kubectl patch", "and 1 more line"),
        *("set scaleDown", "Frontier", "What grows", "Pending pods", "What keeps the others"),
    )
    places = [reader.text.index(word) for word in words]
    assert places == sorted(places)
    charts_of_page = [attributes["id"] for _, attributes in reader.elements if attributes.get("role") == "img"]
    assert charts_of_page == ["chart-0", "chart-1"]
    assert len(reader.figures()) == 2


def test_a_page_without_advice_and_charts_has_no_place_for_them() -> None:
    nothing = ChangeList("What to change", "", ())
    reader = Reader(rendered(AnswerPage("t", (Figures((KeyFigure("Now", "1"),)), nothing))))
    assert "What to change" not in reader.text
    assert reader.figures() == []


def locked(folder: Path, name: str = "cluster") -> Path:
    """Write two nodes at 2 an hour; a pod that keeps data on each, one of which the other node has room for."""
    web, stored = k8s.replica_set("web", replicas=2), {"volumes": [{"name": "v", "emptyDir": {}}]}
    group = k8s.node_group("a", min_size=0, max_size=5, selector={"pool": "a"}, price=2.0)
    nodes = [k8s.node(node, labels={"pool": "a"}) for node in ("n1", "n2")]
    pods = [k8s.pod(f"web-{i}", node=f"n{i}", cpu=f"{i}", owner=web, spec=stored) for i in (1, 2)]
    return listed(folder, group, *nodes, web, *pods, name=f"{name}.json")


def test_a_cluster_page_says_what_to_change_with_the_line_to_change(trimtab: Run, tmp_path: Path) -> None:
    page = page_of(trimtab, tmp_path, locked(tmp_path), "--now", NOW)
    assert (
        "If pods with local storage could be evicted, 1 more node (1,460 a month) could go. "
        "set scaleDown.skipNodesWithLocalStorage: false in the settings (now true)"
    ) in page.text
    assert "Each line shows what that change alone would free on top of this plan (" in page.text


def test_a_page_over_clusters_says_what_to_change_in_which(trimtab: Run, tmp_path: Path) -> None:
    one, other = locked(tmp_path, "one"), listed(tmp_path, k8s.node("n1"), name="other.json")
    page = page_of(trimtab, tmp_path, "--cluster", f"one={one}", "--cluster", f"other={other}", "--now", NOW)
    assert "one: If pods with local storage could be evicted, 1 more node (1,460 a month) could go." in page.text


def test_growth_of_a_cluster_without_nodes_is_shown_at_assumed_rates(trimtab: Run, tmp_path: Path) -> None:
    template = k8s.node("t", cpu="4", memory="16Gi")
    empty = listed(tmp_path, k8s.node_group("a", 0, 9, target=0, nodes=[], template=template), k8s.pod("p", cpu="3"))
    page = page_of(trimtab, tmp_path, empty, "--now", NOW)
    month = (4 * 0.03 + 16 * 0.004) * 730
    figures = f"After the plan {month:,.0f} 1 node (1 added) More a month {month:,.0f} assumed prices"
    assert f"Now 0 0 nodes, assumed prices {figures}" in page.text
    assert "All 0 nodes" not in page.text
    assert (
        "No price is known; assumed: 0.03 a core and 0.004 a GiB of memory an hour; --prices gives yours" in page.text
    )
    priced = page_of(trimtab, tmp_path, empty, "--now", NOW, "--prices", "cpu=1,memory=0")
    assert "After the plan 2,920 1 node (1 added) More a month 2,920" in priced.text
    assert "assumed" not in priced.text


NASTY = "a\u202e\u2066\x1b]0;\x9b"


def test_names_that_change_how_others_are_shown_are_spelled_out() -> None:
    figure = PlotFigure()
    figure.add_scatter(name=NASTY, x=[1], y=[1], text=[NASTY])
    figure.update_layout(title=NASTY)
    page = AnswerPage(
        NASTY,
        (
            Facts((NASTY,)),
            Sentence(NASTY),
            Table(NASTY, ("a", "b"), (Line((NASTY, NASTY), (NASTY,)),)),
            Chart(NASTY, NASTY, figure.to_json()),
            Table(NASTY, (NASTY,), (Line((NASTY,)),), is_searchable=True),
        ),
    )
    text = rendered(page)
    assert is_visible(text.replace("\t", " "))
    reader = Reader(text)
    spelled = visible(NASTY)
    assert spelled in reader.text
    assert reader.figures()[0]["data"][0]["name"] == spelled
    # Nothing of the input is an escape in a script either, which would bring the characters back.
    assert "\\\\u202e" in reader.scripts[-1]
    assert re.search(r"(?<!\\)\\u(202e|2066|00)", "".join(reader.scripts)) is None
