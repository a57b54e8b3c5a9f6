"""The required number of placeholders without some nodes: tables computed by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from google.protobuf.json_format import ParseDict

from tests.builders.slack import GIB, NOW_S, cluster, node, spec
from tests.builders.snapshots import Cluster, write
from trimtab.planner.model.values import SlackRequest
from trimtab.planner.round.round import Round
from trimtab.planner.simulation.build import build_simulation
from trimtab.planner.simulation.virtual_rows import VirtualRows
from trimtab.planner.slack.decision import decide
from trimtab.planner.slack.settings import resolve_slack
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb

LARGE = {"cpu": 16_000, "memory": 64 * GIB, "pods": 110}


def held(given: Cluster, slack: dict[str, Any], requests: tuple[SlackRequest, ...] = ()) -> Round:
    """Return a round in which slack has placed its placeholders."""
    snapshot = canonicalize(write(given))._replace(slack_requests=requests)
    this = Round(snapshot, lambda pods, kinds=(): build_simulation(snapshot, VirtualRows(pods)), NOW_S * 10**9)
    decide(this, resolve_slack(ParseDict({"slack": slack}, pb.PlanSettings())), None)
    return this


def without(this: Round, *names: str) -> dict[str, int]:
    """Return the required numbers without nodes, by set."""
    nodes = np.array([this.snapshot.nodes.name.index(name) for name in names], np.int32)
    sets = [this.placeholders[at].rsplit("-", 1)[0] for at in this.room.bounds[:-1]]
    return dict(zip(sets, this.room.demand.without(nodes).tolist(), strict=True))


@pytest.mark.parametrize(
    ("rate", "granularity", "numbers"),
    [
        # 4 cores per node. 30 %: 12, 10.8, 9.6 and 1.2 cores, in parts of 800m.
        pytest.param(0.3, 5, (15, 14, 12, 2), id="several on a node"),
        # 4, 3.6, 3.2 and 0.4 cores, in parts of 800m.
        pytest.param(0.1, 5, (5, 5, 4, 1), id="half of one for a node"),
        # 5, 4.5, 4 and 0.5 nodes.
        pytest.param(0.5, 1, (5, 5, 4, 1), id="as large as a node"),
        pytest.param(1.0, 2, (20, 18, 16, 2), id="all of the nodes"),
    ],
)
def test_a_share_falls_with_the_nodes(rate: float, granularity: int, numbers: tuple[int, ...]) -> None:
    this = held(cluster(10), {"extraCapacityMinRate": rate, "granularity": granularity})
    names = [f"n{i:02}" for i in range(10)]
    assert tuple(without(this, *names[:gone])["standard"] for gone in (0, 1, 2, 9)) == numbers


def test_the_last_node_takes_nothing_with_it() -> None:
    this = held(cluster(2), {"extraCapacityMinRate": 0.5})
    assert without(this, "n00") == {"standard": 3}
    assert without(this, "n00", "n01") == {"standard": 5}


def test_nodes_that_do_not_count_take_nothing_with_them() -> None:
    given = cluster(4)
    given = replace(given, nodes=given.nodes | {"n03": node("n03", unschedulable=True)})
    this = held(given, {"extraCapacityMinRate": 0.5})
    assert without(this) == without(this, "n03") == {"standard": 8}
    assert this.room.demand.kind(3) != this.room.demand.kind(2) == this.room.demand.kind(1)


def test_a_pool_falls_with_its_own_nodes() -> None:
    given = cluster(0)
    rows = [node(f"n{i}", labels={"zone": "ab"[i % 2]}) for i in range(6)]
    given = replace(given, nodes={f"n{i}": row for i, row in enumerate(rows)})
    this = held(given, {"pools": [{"name": "z", "topologyKey": "zone", "extraCapacityMinRate": 0.5}]})
    # Three nodes of five placeholders each in a zone.
    assert without(this) == {"z:a:standard": 8, "z:b:standard": 8}
    assert without(this, "n0") == {"z:a:standard": 5, "z:b:standard": 8}
    assert without(this, "n1", "n3") == {"z:a:standard": 8, "z:b:standard": 3}
    assert this.room.demand.kind(0) == this.room.demand.kind(2) != this.room.demand.kind(1)


def test_where_placeholders_would_have_another_size_there_are_to_be_as_many_as_now() -> None:
    given = cluster(4)
    given = replace(given, nodes=given.nodes | {"big": node("big", allocatable=LARGE)})
    this = held(given, {"extraCapacityMinRate": 0.5})
    # 16 of 32 cores in parts of 1.28. Without "big" the average falls from 6.4 to 4 cores.
    assert without(this) == without(this, "big") == {"standard": 13}
    # Without a small one it rises to 7 cores, by less than a tenth: 14 cores of them.
    assert without(this, "n00") == {"standard": 11}


def test_what_objects_ask_for_does_not_depend_on_nodes() -> None:
    request = SlackRequest("Deployment/default/web", "", "default", spec(), (), 1, "3")
    this = held(cluster(4), {"extraCapacityMinRate": 0.5}, (request,))
    assert without(this) == {"standard": 10, "Deployment/default/web": 3}
    assert without(this, "n00", "n01") == {"standard": 5, "Deployment/default/web": 3}


def test_the_largest_pod_is_kept_room_for_however_many_nodes_there_are() -> None:
    given = cluster(4, {"a": "n00"})
    this = held(given, {"extraCapacityMinRate": 0.5, "strategy": "LARGEST_POD"})
    assert without(this)["largest"] == without(this, "n03")["largest"] == 1
    assert without(this, "n03")["standard"] < without(this)["standard"]
