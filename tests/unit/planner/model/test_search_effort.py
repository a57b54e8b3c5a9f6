"""The effort of the search: what each value pays for, and what it never does."""

import pytest

from tests.builders import scale_up
from tests.builders.kubernetes import Json, node, node_group, pod, replica_set
from tests.builders.scale_down import NOW_S, plan
from trimtab.planner.model.settings import SettingsError, resolve_scale_down, resolve_scale_up
from trimtab.v1 import plan_pb2 as pb

WEB = replica_set("web", 99)
SETTINGS = {"utilizationThreshold": 1, "unneededTime": "0s"}


def cluster(nodes: int) -> list[Json]:
    """Return nodes that are half full, in turn with one pod and with two."""
    objects: list[Json] = [WEB, node_group("g", nodes=[f"n{number:03}" for number in range(nodes)], target=nodes)]
    for number in range(nodes):
        name = f"n{number:03}"
        objects.append(node(name, "4"))
        for at in range(1 + number % 2):
            objects.append(pod(f"p{number:03}-{at}", f"{1900 // (1 + number % 2)}m", node=name, owner=WEB))
    return objects


def tried(nodes: int, effort: str) -> int:
    """Return how many attempts a first loop makes."""
    return plan(cluster(nodes), settings=SETTINGS | {"searchEffort": effort}).counts["plans_tried"]


def test_the_first_plan_is_taken_without_another() -> None:
    assert tried(20, "FIRST") == 1
    first = plan(cluster(20), settings=SETTINGS | {"searchEffort": "FIRST"})
    again = plan(cluster(20), settings=SETTINGS | {"searchEffort": "FIRST"}, state=first.state, now_s=NOW_S + 10)
    assert again.unneeded == first.unneeded
    assert again.counts["plans_tried"] == 1


def test_the_usual_effort_falls_off_with_the_size_of_the_cluster_and_ends_at_none() -> None:
    counts = [tried(nodes, "USUAL") for nodes in (20, 100, 160, 400, 802)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == counts[1] > counts[2] > counts[3] > counts[4] > 1


def test_the_best_effort_is_the_same_at_any_size() -> None:
    assert tried(802, "BEST") == tried(20, "BEST") == tried(20, "USUAL")


def test_no_effort_means_the_usual_one() -> None:
    for resolve in (resolve_scale_down, resolve_scale_up):
        assert resolve(pb.PlanSettings()).search == resolve(pb.PlanSettings(search_effort=pb.SearchEffort.USUAL)).search


@pytest.mark.parametrize("resolve", [resolve_scale_down, resolve_scale_up])
def test_an_unknown_effort_is_an_error_that_names_it(resolve: object) -> None:
    settings = pb.PlanSettings()
    settings.MergeFromString(bytes([8 << 3, 9]))
    with pytest.raises(SettingsError, match="search_effort"):
        resolve(settings)  # type: ignore[operator]


def two_groups(price: float | None = None) -> list[Json]:
    """Return groups of nodes for one pod and for four. price : of the former, a quarter of the latter's."""
    narrow, wide = node("t", "2", "1Gi"), node("t", "8", "4Gi")
    return [
        node_group("narrow", 0, 10, target=0, template=narrow, nodes=[], price=price),
        node_group("wide", 0, 10, target=0, template=wide, nodes=[], price=None if price is None else 4 * price),
    ]


@pytest.mark.parametrize("effort", ["FIRST", "USUAL"])
def test_scale_up_takes_no_plan_of_other_expanders_than_the_named_ones(effort: str) -> None:
    """With two nodes at most, LEAST_WASTE leaves five of seven pods; MOST_PODS and CHEAPEST_PLAN leave none."""
    unpriced, priced = two_groups(), two_groups(price=1.0)
    pods = [pod(f"p{i}", "2", "1Gi") for i in range(7)]
    limited = {"maxNewNodes": 2, "searchEffort": effort}
    for groups in (unpriced, priced):
        named = scale_up.plan(groups, pods, settings=limited | {"expanders": ["LEAST_WASTE"]})
        assert named.growth == {"narrow": 2}
        assert list(named.answer.summary.notes) == []
    unnamed = scale_up.plan(unpriced, pods, settings=limited)
    assert unnamed.growth == ({"narrow": 2} if effort == "FIRST" else {"wide": 2})
    assert scale_up.plan(priced, pods, settings=limited).growth == {"wide": 2}
