"""Price files: which line applies to a node group, how a plan uses it, and which files are refused."""

from pathlib import Path

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.price_files import read_prices
from trimtab.clients.cli.prices import (
    ON_DEMAND,
    SPOT,
    NodePrice,
    PricedMachine,
    Prices,
    PriceSource,
    Rates,
    apply_prices,
    machine_of,
    node_prices,
)
from trimtab.clients.cluster_view import ClusterView
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.v1 import snapshot_pb2

TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
CSV = """\
type,zone,lifecycle,price
m5.large,,,0.096
m5.large,eu-west-1a,,0.107
m5.large,eu-west-1a,spot,0.031
"""
YAML = """\
- {type: m5.large, price: 0.096}
- {type: m5.large, zone: eu-west-1a, lifecycle: on-demand, price: 0.107}
- type: m5.large
  zone: eu-west-1a
  lifecycle: spot
  price: 0.031
"""


@pytest.fixture(params=["csv", "yaml"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"prices.{request.param}"
    path.write_text(CSV if request.param == "csv" else YAML)
    return path


def priced(path: Path, **labels_of: dict[str, str]) -> snapshot_pb2.ClusterSnapshot:
    """Return a snapshot with a group and a node for each name, with the prices of a file."""
    objects = []
    for name, labels in labels_of.items():
        objects += [k8s.node(name, labels={"pool": name, **labels}), k8s.node_group(name, selector={"pool": name})]
    snapshot = build_snapshot(decode_objects(objects)).snapshot
    apply_prices(snapshot, read_prices(path))
    return snapshot


def test_both_forms_say_the_same(file: Path) -> None:
    assert read_prices(file).machines == {
        PricedMachine("m5.large", "", ON_DEMAND): 0.096,
        PricedMachine("m5.large", "eu-west-1a", ON_DEMAND): 0.107,
        PricedMachine("m5.large", "eu-west-1a", SPOT): 0.031,
    }


def test_a_group_has_the_price_of_its_type_zone_and_lifecycle(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zone = {TYPE: "m5.large", ZONE: "eu-west-1a"}
    elsewhere = {TYPE: "m5.large", ZONE: "eu-west-1b"}
    found = priced(
        file,
        here=zone,
        there=elsewhere,
        spot={**zone, "karpenter.sh/capacity-type": "spot"},
        strange={**elsewhere, "eks.amazonaws.com/capacityType": "SPOT"},
        unlabelled={},
    )
    prices = {one.id: one.price_per_hour for one in found.node_groups if one.HasField("price_per_hour")}
    assert prices == {"here": 0.107, "there": 0.096, "spot": 0.031}
    told = capsys.readouterr().err
    assert "2 node groups" in told
    assert "strange (m5.large eu-west-1b spot)" in told


def test_a_group_of_nodes_of_several_prices_gets_none(file: Path) -> None:
    zones = ("eu-west-1a", "eu-west-1b")
    nodes = [k8s.node(zone, labels={"pool": "a", TYPE: "m5.large", ZONE: zone}) for zone in zones]
    snapshot = build_snapshot(decode_objects([*nodes, k8s.node_group("a", selector={"pool": "a"})])).snapshot
    apply_prices(snapshot, read_prices(file))
    assert not snapshot.node_groups[0].HasField("price_per_hour")
    assert [one.price_per_hour for one in snapshot.nodes] == [0.107, 0.096]


def test_a_node_has_a_price_of_its_own_only_where_its_group_has_another() -> None:
    names = {"line": "a", "label": "a", "type": "a", "own": "a", "group": "a", "rates": ""}
    objects = [k8s.node(name, labels={"pool": pool, TYPE: name, "name": name}) for name, pool in names.items()]
    snapshot = build_snapshot(
        decode_objects([*objects, k8s.node_group("a", selector={"pool": "a"}, price=5.0)])
    ).snapshot
    by_name = {one.name: one for one in snapshot.nodes}
    by_name["line"].node_group, by_name["own"].price_per_hour = "b", 4.0
    given = Prices(
        {PricedMachine("type", "", ON_DEMAND): 3.0}, {"b": 1.0}, {"name=label": 2.0}, Rates({"cpu": 7.0}), file="f"
    )
    expected = {
        "line": NodePrice(1.0, PriceSource.GROUP_LINE),
        "label": NodePrice(2.0, PriceSource.LABEL_LINE),
        "type": NodePrice(3.0, PriceSource.TYPE_LINE),
        "own": NodePrice(4.0, PriceSource.NODE),
        "group": NodePrice(5.0, PriceSource.NODE_GROUP),
        "rates": NodePrice(28.0, PriceSource.RATES),
    }
    assert node_prices(ClusterView(snapshot), given) == expected
    for _ in range(2):
        apply_prices(snapshot, given)
        assert node_prices(ClusterView(snapshot), given) == expected
    assert {one.name: one.price_per_hour for one in snapshot.nodes if one.HasField("price_per_hour")} == {
        name: price.per_hour for name, price in expected.items() if name != "group"
    }


@pytest.mark.parametrize("key", ["cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible"])
def test_old_labels_and_other_clouds_are_known(key: str) -> None:
    labels = {"beta.kubernetes.io/instance-type": "e2", "failure-domain.beta.kubernetes.io/zone": "z", key: "true"}
    assert machine_of(labels) == PricedMachine("e2", "z", SPOT)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        pytest.param("a.csv", "type,cost\nm5,1\n", "line 1: column 'cost' is unknown", id="unknown column"),
        pytest.param("a.csv", "type,zone\nm5,a\n", "line 1: column 'price' is missing", id="missing column"),
        pytest.param("a.csv", "type,price\nm5,1\nm6,much\n", "line 3: price 'much' is not a price", id="no number"),
        pytest.param("a.csv", "type,price\nm5,-1\n", "line 2: price '-1' is not a price", id="negative"),
        pytest.param("a.csv", "type,price\nm5,1e308\n", "line 2: price '1e308' is not a price", id="too large"),
        pytest.param("a.csv", "type,price\nm5,nan\n", "line 2: price 'nan' is not a price", id="not finite"),
        pytest.param("a.csv", "type,price\nm5,1,2\n", "line 2: it has more values", id="too many values"),
        pytest.param("a.csv", "type,price\nm5,1\n,2\n", "line 3: type is missing", id="no type"),
        pytest.param("a.csv", "type,price\nm5,1\nm5,2\n", "line 3: m5 on-demand already has a price", id="twice"),
        pytest.param("a.csv", "type,price,lifecycle\nm5,1,now\n", "line 2: lifecycle 'now'", id="lifecycle"),
        pytest.param("a.csv", "", "line 1: column 'type' is missing", id="empty"),
        pytest.param("a.yaml", "- {type: m5, price: 1}\n- {cost: 1}\n", "line 2: 'cost' is unknown", id="key"),
        pytest.param("a.yaml", "m5: 1\n", "line 1: a list of mappings", id="no list"),
        pytest.param("a.yaml", "- m5\n", "line 1: each entry is a mapping", id="no mapping"),
        pytest.param("a.yaml", "- {type: [m5], price: 1}\n", "line 1: each entry is a mapping", id="no plain value"),
        pytest.param("a.yaml", "[]\n", "line 1: there is no price", id="no entry"),
        pytest.param("a.yaml", "- {\n", "a.yaml: ", id="no YAML"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_named_with_its_line(tmp_path: Path, name: str, text: str, told: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_prices(path)
    assert str(path) in str(caught.value)
    assert told in str(caught.value)


def test_a_plan_over_kubectls_objects_says_what_they_cost(trimtab: Run, tmp_path: Path, file: Path) -> None:
    labels = {TYPE: "m5.large", ZONE: "eu-west-1a"}
    cluster = listed(tmp_path, *(k8s.node(name, labels=labels) for name in ("n1", "n2")))
    plan = ("plan", cluster, "--decision", "scale-down", "-o", "json")
    without, priced = trimtab(*plan).document(), trimtab(*plan, "--prices", file).document()
    assert without["summary"]["assumption"]
    assert [one["pricePerHour"] for one in priced["nodes"]] == [0.107, 0.107]
    assert not priced["summary"]["assumption"]


def test_a_missing_price_file_is_named(trimtab: Run, cluster: Path) -> None:
    done = trimtab("plan", "--no-advice", cluster, "--prices", "nowhere.csv")
    assert (done.code, done.err) == (2, "trimtab: nowhere.csv: No such file or directory\n")


def clusters(folder: Path) -> Path:
    """A master outside of groups, a labelled worker and a worker of a group with a price of its own."""
    nodes = [
        k8s.node("m1", cpu="4", labels={TYPE: "m5", "node-role.kubernetes.io/control-plane": ""}),
        k8s.node("w1", cpu="4", labels={TYPE: "m5", "pool": "a"}),
        k8s.node("w2", cpu="4", labels={TYPE: "m5", "pool": "b"}),
    ]
    groups = [k8s.node_group(name, min_size=0, max_size=5, selector={"pool": name}, price=0.9) for name in ("a", "b")]
    return listed(folder, *nodes, *groups)


def test_a_group_wins_over_a_label_and_a_label_over_a_type(trimtab: Run, tmp_path: Path) -> None:
    prices = tmp_path / "prices.csv"
    lines = ("m5,,,0.1", ",a,,0.2", ",,pool=b,0.4", ",,node-role.kubernetes.io/control-plane=,0.8")
    prices.write_text("\n".join(("type,group,label,price", *lines)) + "\n")
    out = trimtab("plan", "--no-advice", clusters(tmp_path), "--prices", prices).out
    assert "That saves 0.60 of 1.40 an hour (43 %)" in out
    sources = "Prices: 2 nodes by label in prices.csv, 1 node by group in prices.csv."
    assert sources in out


def test_rates_price_nodes_without_another_price_and_are_named(trimtab: Run, tmp_path: Path) -> None:
    out = trimtab("plan", "--no-advice", clusters(tmp_path), "--prices", "cpu=0.03,memory=0.005").out
    assert "That saves 1.80 of 2.00 an hour (90 %)" in out
    assert "Prices: 2 nodes by NodeGroup, 1 node by rates (0.03 a core and 0.005 a GiB of memory an hour)." in out


def test_rates_are_prices_for_the_planner_but_assumed_ones_are_not(trimtab: Run, tmp_path: Path) -> None:
    cluster = listed(tmp_path, *(k8s.node(name, cpu="4", labels={TYPE: "m5"}) for name in ("n1", "n2")))
    plan = ("plan", cluster, "--decision", "scale-down")
    given = trimtab(*plan, "--prices", "cpu=0.03", "-o", "json").document()
    assert [one["pricePerHour"] for one in given["nodes"]] == [0.12, 0.12]
    assumed = trimtab(*plan, "-o", "json").document()
    assert [one["objective"] for one in assumed["summary"]["decisions"]] == ["COUNT"]
    assert assumed["summary"]["assumption"] == "assumed: 0.03 a core and 0.004 a GiB of memory an hour"
    out = " ".join(trimtab(*plan).out.split())
    assert "(assumed: 0.03 a core and 0.004 a GiB of memory an hour; --prices gives yours)" in out


@pytest.mark.parametrize(
    ("rates", "told"),
    [
        pytest.param("cpu=1,memory", "'memory' is not RESOURCE=PRICE", id="no price"),
        pytest.param("cpu=much", "'much' is no number", id="no number"),
        pytest.param("cpu=1,cpu=2", "cpu is given twice", id="twice"),
        pytest.param("cpu=-1", "no rate is left", id="negative alone"),
    ],
)
def test_rates_that_cannot_be_used_are_refused(trimtab: Run, cluster: Path, rates: str, told: str) -> None:
    done = trimtab("plan", "--no-advice", cluster, "--prices", rates)
    assert (done.code, told in done.err) == (2, True)


def test_a_negative_rate_is_named_and_the_other_one_counts(trimtab: Run, cluster: Path) -> None:
    done = trimtab("plan", "--no-advice", cluster, "--prices", "cpu=-1,memory=0.004")
    assert done.code == 0
    assert "--prices: cpu=-1 is not a price per hour; it is left out" in done.err
    assert "by rates (0.004 a GiB of memory an hour)" in done.out


def test_prices_in_another_currency_are_named_and_the_others_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("type,price,currency\na,1,EUR\nb,2,USD\nc,3,usd\nd,4,\n")
    found = read_prices(path)
    assert ({one.type: price for one, price in found.machines.items()}, found.currency) == (
        {"b": 2, "c": 3, "d": 4},
        "USD",
    )
    assert "1 price in EUR left out, such as that of a on-demand: the others are in USD" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        pytest.param("m5,a,,1", "type and group are given", id="two subjects"),
        pytest.param(",,pool,1", "label 'pool' is not KEY=VALUE", id="label without value"),
    ],
)
def test_a_line_is_of_one_subject(tmp_path: Path, line: str, told: str) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(f"type,group,label,price\n{line}\n")
    with pytest.raises(UsageError, match=told):
        read_prices(path)


def test_the_price_of_new_nodes_is_never_added_to_assumed_ones(trimtab: Run, tmp_path: Path) -> None:
    """The only price is that of a group at zero, so those of the nodes are assumed."""
    web = k8s.replica_set("web", 1)
    priced = k8s.node_group("new", min_size=0, max_size=3, selector={"pool": "new"}, price=0.5)
    template = {
        "metadata": {"labels": {"pool": "new"}},
        "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "50"}},
    }
    priced["spec"] |= {"template": template, "targetSize": 0}
    waiting = k8s.pod("web-0", cpu="8", owner=web)
    cluster = listed(tmp_path, k8s.node("n1", cpu="2", labels={TYPE: "m5"}), web, waiting, priced)
    assert "1 pod. That costs 0.50 an hour, 365 a month." in trimtab("plan", "--no-advice", cluster).out
