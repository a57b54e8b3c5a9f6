"""What decides between plans, on recorded clusters: without prices nothing but the number of nodes and the expanders
of upstream, whatever the default; with prices the saving, never less than with the other objective."""

from datetime import datetime
from typing import Any

import pytest

from tests.builders.examples import ALL
from tests.builders.scale_down import scale_down_request
from tests.builders.verdicts import judged, saving_of
from tests.parity.cluster_autoscaler_answers import UNLIMITED, recorded, settings_of
from tests.parity.cluster_autoscaler_growth import ours, price
from tests.parity.cluster_autoscaler_growth import recorded as recorded_growth
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.planner.round.decision import NodeChange
from trimtab.planner.scale_down.decision import decide_scale_down
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

MONEY, COUNT = plan_pb2.Objective.MONEY, plan_pb2.Objective.COUNT


def decided(document: dict[str, Any], objective: str) -> tuple[plan_pb2.PlanResponse, NodeChange]:
    """Plan with an objective; return the answer, and what it changes."""
    snapshot = canonicalize(build_snapshot(decode_objects(document["items"])).snapshot)
    settings = settings_of(document, UNLIMITED | {"objective": objective})
    now_s = int(datetime.fromisoformat(document["now"]).timestamp())
    found = decide_scale_down(scale_down_request(snapshot, settings, now_s))
    return judged(found, snapshot), found.change


def without_prices(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document without the prices of its groups."""
    items = [
        {**item, "spec": {name: value for name, value in item["spec"].items() if name != "price"}}
        if item["kind"] == "NodeGroup"
        else item
        for item in document["items"]
    ]
    return {**document, "items": items}


def test_without_prices_the_default_answers_byte_for_byte_as_the_number_of_nodes_does() -> None:
    for document, _ in list(recorded("generated"))[: 12 if ALL else 6]:
        bare = without_prices(document)
        (default, change), (count, _) = (decided(bare, objective) for objective in ("UNSPECIFIED", "COUNT"))
        assert default.SerializeToString(deterministic=True) == count.SerializeToString(deterministic=True)
        assert change.objective == COUNT


@pytest.mark.ci
def test_with_prices_the_default_saves_no_less_than_the_most_nodes_do() -> None:
    better = 0
    for document, _ in list(recorded("generated"))[::2]:
        (default, change), (count, _) = (decided(document, objective) for objective in ("UNSPECIFIED", "COUNT"))
        assert change.objective == MONEY
        assert saving_of(default) >= saving_of(count) - 1e-9
        assert saving_of(default) <= (change.most_saved or 0.0) * (1 + 1e-9)
        better += saving_of(default) > saving_of(count) + 1e-9
    assert better


@pytest.mark.parametrize("effort", ["FIRST", "USUAL"])
def test_without_prices_groups_are_chosen_as_by_upstreams_default(effort: str) -> None:
    for document, _ in list(recorded_growth("pending"))[: 20 if ALL else 3]:
        bare = without_prices(document)
        default, named = (ours(bare, {"expanders": chain}, effort) for chain in ([], ["LEAST_WASTE"]))
        assert len(default.growth.pending) <= len(named.growth.pending)
        if effort == "FIRST":
            assert default.growth == named.growth


@pytest.mark.nightly
def test_with_prices_the_default_costs_no_more_than_upstreams_default_for_as_many_pods() -> None:
    cheaper = 0
    for document, _ in list(recorded_growth("pending"))[:30]:
        default, named = (ours(document, {"expanders": chain}) for chain in ([], ["LEAST_WASTE"]))
        assert default.offences == []
        if len(default.growth.pending) == len(named.growth.pending):
            cheaper += price(document, default.growth) < price(document, named.growth) - 1e-9
    assert cheaper >= 5
