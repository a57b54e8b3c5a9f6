"""Price files: which line applies to a node group, how a plan uses it, and which files are refused."""

from pathlib import Path

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.prices import ON_DEMAND, SPOT, PricedMachine, apply_prices, machine_of, read_prices
from trimtab.clients.snapshots.objects import build_snapshot, decode_objects
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
    assert read_prices(file) == {
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
    assert [one.get("savingPerHour") for one in without["scaleDown"]["unneeded"]] == [None, None]
    assert [one["savingPerHour"] for one in priced["scaleDown"]["unneeded"]] == [0.107, 0.107]


def test_a_missing_price_file_is_named(trimtab: Run, cluster: Path) -> None:
    done = trimtab("plan", cluster, "--prices", "nowhere.csv")
    assert (done.code, done.err) == (2, "trimtab: nowhere.csv: No such file or directory\n")
