"""Price files for node groups given as objects: simulations, recordings, the demo, live clusters, explanations."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed
from trimtab.clients.cli.demo.command import Chapter, with_prices
from trimtab.clients.cli.demo.loop import DemoSettings
from trimtab.clients.cli.group_prices import LivePrices
from trimtab.clients.cli.prices import ON_DEMAND, PricedMachine, Prices
from trimtab.common.kubernetes.kinds.nodes import Node, NodeGroup
from trimtab.common.watched.cloud_groups import known_prices
from trimtab.v1 import actuator_pb2, plan_pb2

TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
CSV = "type,zone,price\nm5.large,,0.5\nm5.large,b,0.75\n"


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.csv"
    path.write_text(CSV)
    return path


def group(name: str, **more: Any) -> dict[str, Any]:
    return k8s.node_group(name, selector={"pool": name}, min_size=0, max_size=5, **more)


def node(name: str, pool: str, **labels: str) -> dict[str, Any]:
    return k8s.node(name, labels={"pool": pool, **labels}, cpu="4")


def test_groups_of_a_scenario_are_priced_by_their_labels_and_zone(trimtab: Run, tmp_path: Path, prices: Path) -> None:
    path = tmp_path / "s.yaml"
    labels = f"labels: {{{TYPE}: m5.large}}, size: 2, minSize: 2"
    path.write_text(
        f"duration: 1h\nnodeGroups:\n- {{name: a, zone: a, price: 9, {labels}}}\n- {{name: b, zone: b, {labels}}}\n"
        "- {name: c, size: 1, minSize: 1, price: 3}\n"
    )
    done = trimtab("simulate", path, "--prices", prices, "-o", "json")
    result = done.document()
    assert result["summary"]["money"] == 2 * 0.5 + 2 * 0.75 + 3
    assert result["samples"]["pricePerHour"][0] == 5.5
    assert "not determine the price for 1 node group: c (on-demand)" in done.err


def test_groups_of_a_recording_are_priced_by_their_nodes_and_the_planner_knows(
    trimtab: Run, tmp_path: Path, prices: Path
) -> None:
    nodes = [node(name, "a", **{TYPE: "m5.large", ZONE: "b"}) for name in ("n1", "n2")]
    web = k8s.replica_set("web", 2)
    cluster = listed(tmp_path, group("a"), *nodes, web, *k8s.pods_of(web, 2, cpu="500m", node="n1"))
    settings = tmp_path / "settings.yaml"
    settings.write_text("scaleDown: {unneededTime: 86400s}\n")
    command = ("simulate", cluster, "--settings", settings, "-o", "json")
    without, priced = trimtab(*command).document(), trimtab(*command, "--prices", prices).document()
    assert (without["summary"]["money"], without["possibleSavingPerHour"]) == (0, 0)
    assert priced["summary"]["money"] == pytest.approx(0.75 * priced["summary"]["nodeHours"])
    assert priced["possibleSavingPerHour"] == 0.75


def test_an_explanation_of_a_pod_that_waits_tells_what_its_node_costs(
    trimtab: Run, tmp_path: Path, prices: Path
) -> None:
    waiting = k8s.pod("web", cpu="3", owner=k8s.replica_set("web", 1))
    cluster = listed(
        tmp_path, group("a"), node("n1", "a", **{TYPE: "m5.large"}), k8s.pod("on", cpu="3", node="n1"), waiting
    )
    command = ("explain", cluster, "pod/default/web")
    assert "Such a node costs" not in trimtab(*command).out
    assert "Such a node costs 0.50 an hour, 365 a month." in " ".join(
        trimtab(*command[:-1], "--prices", prices, command[-1]).out.split()
    )


def test_the_demo_gives_node_groups_the_prices_of_the_file(tmp_path: Path) -> None:
    cluster = listed(tmp_path, group("a"), group("b"), node("n1", "a", **{TYPE: "m5.large"}), node("n2", "b"))
    chapter = Chapter("", "", (cluster,), DemoSettings("own", plan_pb2.PlanSettings()))
    changed = with_prices(chapter, Prices({PricedMachine("m5.large", "", ON_DEMAND): 0.5}), tmp_path)
    items = msgspec.json.decode(changed.files[0].read_bytes())["items"]
    assert {one["metadata"]["name"]: one["spec"].get("price") for one in items if one["kind"] == "NodeGroup"} == {
        "a": 0.5,
        "b": None,
    }
    assert len(items) == 4
    assert changed.scenario.prices == Prices({PricedMachine("m5.large", "", ON_DEMAND): 0.5}), (
        "for nodes outside of groups"
    )


class CountedNodeReads:
    """Nodes of a live cluster, and how often they were read."""

    def __init__(self, *nodes: dict[str, Any]) -> None:
        self.found = [msgspec.convert(one, Node) for one in nodes]
        self.count = 0

    def nodes(self) -> list[Node]:
        self.count += 1
        return self.found


def test_live_groups_are_priced_by_their_template_else_by_their_nodes() -> None:
    cluster = CountedNodeReads(
        {**node("n1", "a", **{TYPE: "m5.large"}), "spec": {"providerID": "aws:///n1"}},
        node("n2", "declared", **{TYPE: "m5.large", ZONE: "b"}),
    )
    status = actuator_pb2.ActuatorStatus()
    status.node_groups.add(id="a", price_per_hour=9.0, instances=["aws:///n1"])
    template = status.node_groups.add(id="t", price_per_hour=9.0).template
    template.labels.update({TYPE: "m5.large", ZONE: "b"})
    status.node_groups.add(id="unknown", price_per_hour=9.0)
    declared = (msgspec.convert(group("declared"), NodeGroup),)
    live = LivePrices(
        Prices({PricedMachine("m5.large", "", ON_DEMAND): 0.5, PricedMachine("m5.large", "b", ON_DEMAND): 0.75}),
        cluster.nodes,
    )
    expected = {"a": 0.5, "declared": 0.75, "t": 0.75, "unknown": 9.0}
    assert known_prices(live(declared, status), status) == expected
    cluster.found = []
    assert known_prices(live(declared, status), status) == expected


def test_nodes_of_a_live_cluster_are_read_only_until_all_prices_are_known() -> None:
    cluster = CountedNodeReads()
    live = LivePrices(Prices({PricedMachine("m5.large", "", ON_DEMAND): 0.5}), cluster.nodes)
    declared = (msgspec.convert(group("a"), NodeGroup),)
    assert known_prices(live(declared, None), None) == {}
    cluster.found = [msgspec.convert(node("n1", "a", **{TYPE: "m5.large"}), Node)]
    found = [known_prices(live(declared, None), None) for _ in range(3)]
    assert found == [{"a": 0.5}] * 3
    assert cluster.count == 2
