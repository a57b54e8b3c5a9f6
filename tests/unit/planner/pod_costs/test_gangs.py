"""Pods that a running gang needs go after all others, and gang by gang."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.gangs import GangRow, gang_snapshot, member
from tests.builders.kubernetes import Json, node, pod, replica_set
from tests.builders.pod_costs import S, at, costs, groups, target, term
from tests.certificates.gangs import torn_by_costs
from tests.reference.pod_costs import gangs as naive
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.service.session import CachedSnapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import snapshot_pb2

WEB = replica_set("web", 6)
WEB_KEY = "ReplicaSet/default/web"
OLDEST = target(term(S.OLDEST, threshold=100.0))


def decide(message: snapshot_pb2.ClusterSnapshot, *targets: pb.PodCostTarget) -> pb.PlanResponse:
    """Return a plan whose costs tear no gang."""
    return decide_kept(CachedSnapshot(canonicalize(message)), message, *targets)


def decide_kept(
    kept: CachedSnapshot, message: snapshot_pb2.ClusterSnapshot, *targets: pb.PodCostTarget
) -> pb.PlanResponse:
    request = pb.PlanRequest(decisions=[pb.Decision.POD_COSTS])
    request.settings.pod_costs.targets.extend(targets)
    found = plan(kept.snapshot, request, None, Work(cache=kept))
    assert list(torn_by_costs(message, found.pod_costs)) == []
    return found


def web(name: str, second: int, gang: str = "", owner: Json = WEB, place: str = "n0") -> Json:
    if gang:
        return member(name, gang, "100m", node=place, owner=owner, created=at(second))
    return pod(name, "100m", node=place, owner=owner, created=at(second))


def order(rows: Sequence[GangRow], *pods: Json) -> list[str]:
    """Return the pods of one ReplicaSet in the order of removal, the oldest first if no gang is in the way."""
    answer = decide(gang_snapshot(list(rows), node("n0", "8"), WEB, *pods), OLDEST)
    return [name.partition("/")[2] for name in groups(answer)[WEB_KEY].pods]


def test_the_pods_of_a_gang_at_its_minimum_go_after_all_others() -> None:
    assert order([GangRow("g", 2)], web("g1", 1, "g"), web("g2", 2, "g"), web("x", 9)) == ["x", "g1", "g2"]


def test_gangs_go_one_after_the_other_by_the_mean_of_their_own_costs() -> None:
    pods = [web("a1", 1, "a"), web("b1", 2, "b"), web("b2", 3, "b"), web("a2", 50, "a")]
    assert order([GangRow("a", 2), GangRow("b", 2)], *pods) == ["b1", "b2", "a1", "a2"]


def test_gangs_of_equal_costs_have_different_ones_which_stay_when_the_first_goes() -> None:
    rows = [GangRow(name, 2) for name in "abc"]
    pods = {f"{name}{i}": web(f"{name}{i}", 5, name) for name in "abc" for i in range(2)}
    message = gang_snapshot(rows, node("n0", "8"), WEB, *pods.values())
    before = costs(groups(decide(message, OLDEST))[WEB_KEY])
    assert before["a0"] == before["a1"] < before["b0"] == before["b1"] < before["c0"] == before["c1"] <= 1 << 26
    left = [one for name, one in pods.items() if name[0] != "a"]
    after = costs(groups(decide(gang_snapshot(rows, node("n0", "8"), WEB, *left), OLDEST))[WEB_KEY])
    assert after == {name: cost for name, cost in before.items() if name[0] != "a"}


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        pytest.param(GangRow("g", 2), ["g1", "x", "g2", "g3"], id="one above its minimum is as any pod"),
        pytest.param(GangRow("g", 2, whole=True), ["x", "g1", "g2", "g3"], id="disrupted as a whole, it needs all"),
        pytest.param(GangRow("g", 4), ["g1", "x", "g2", "g3"], id="not running, it needs none"),
        pytest.param(GangRow("g"), ["g1", "x", "g2", "g3"], id="without a minimum it is no gang"),
        pytest.param(GangRow("g", 2, problem="unreadable"), ["g1", "x", "g2", "g3"], id="unreadable"),
        pytest.param(GangRow("other", 2), ["g1", "x", "g2", "g3"], id="missing"),
    ],
)
def test_only_what_a_running_gang_needs_goes_last(row: GangRow, wanted: list[str]) -> None:
    assert order([row], web("g1", 1, "g"), web("x", 2), web("g2", 3, "g"), web("g3", 4, "g")) == wanted


def test_pods_on_no_node_do_not_count_as_running() -> None:
    pods = [web("g1", 1, "g"), web("g2", 2, "g", place=""), web("x", 3)]
    assert order([GangRow("g", 2)], *pods) == ["g1", "x"]


def test_of_two_owners_only_the_one_with_too_many_pods_may_take_what_a_gang_can_spare() -> None:
    heads, workers = replica_set("heads", 2), replica_set("workers", 1)
    pods = [
        member(f"{owner['metadata']['name']}-{i}", "g", "100m", node="n0", owner=owner, created=at(i))
        for owner in (heads, workers)
        for i in range(2)
    ]
    answer = decide(gang_snapshot([GangRow("g", 3)], node("n0", "8"), heads, workers, pods), OLDEST)
    of_heads, of_workers = (costs(groups(answer)[f"ReplicaSet/default/{name}"]) for name in ("heads", "workers"))
    assert of_workers["workers-0"] < 0 < of_workers["workers-1"]
    assert set(of_heads.values()) == {of_workers["workers-1"]}


OWNERS = ("heads", "workers", "web")
ROW = st.tuples(
    st.sampled_from(OWNERS), st.sampled_from(["", "a", "b", "c"]), st.integers(0, 60), st.integers(0, 9).map(bool)
)
ROWS = st.lists(ROW, min_size=1, max_size=16)
GANGS = st.fixed_dictionaries({name: st.tuples(st.integers(0, 4), st.booleans()) for name in "abc"})
WISHES = st.fixed_dictionaries({name: st.integers(0, 6) for name in OWNERS})


def cluster(
    rows: list[tuple[str, str, int, bool]], gangs: dict[str, tuple[int, bool]], wishes: dict[str, int]
) -> snapshot_pb2.ClusterSnapshot:
    owners = {name: replica_set(name, wishes[name]) for name in OWNERS}
    pods = [
        web(f"p{i:02}", second, gang, owners[owner], "n0" if is_placed else "")
        for i, (owner, gang, second, is_placed) in enumerate(rows)
    ]
    listed = [GangRow(name, least, whole=is_whole) for name, (least, is_whole) in gangs.items()]
    return gang_snapshot(listed, node("n0", "8"), list(owners.values()), pods)


@given(ROWS, GANGS, WISHES)
@examples(120)
def test_costs_are_those_of_the_naive_twin(
    rows: list[tuple[str, str, int, bool]], gangs: dict[str, tuple[int, bool]], wishes: dict[str, int]
) -> None:
    found = decide(cluster(rows, gangs, wishes), OLDEST).pod_costs
    own = decide(
        cluster([(owner, "", second, is_placed) for owner, _, second, is_placed in rows], {}, wishes), OLDEST
    ).pod_costs
    own_costs = {name: cost for group in own.groups for name, cost in costs(group).items()}
    # Where an owner has pods on nodes, those on none are removed before costs count.
    having = {owner for owner, _, _, is_placed in rows if is_placed}
    pods = [
        naive.OwnedPod(f"p{i:02}", owner, gang if is_placed else "", own_costs[f"p{i:02}"])
        for i, (owner, gang, _, is_placed) in enumerate(rows)
        if is_placed or owner not in having
    ]
    surplus = {owner: sum(pod.owner == owner for pod in pods) - wishes[owner] for owner in OWNERS}
    running = {name: naive.RunningGang(least, is_whole) for name, (least, is_whole) in gangs.items() if least}
    assert {name: cost for group in found.groups for name, cost in costs(group).items()} == naive.costs(
        pods, running, surplus
    )


@given(st.integers(0, 2**48))
@examples(40)
def test_shrinking_an_owner_pod_by_pod_breaks_one_gang_at_a_time(seed: int) -> None:
    """The pods go as the first plan ranks them."""
    random = Random(seed)
    rows = [(random.choice(OWNERS[:2]), random.choice("abc"), random.randrange(60), True) for _ in range(12)]
    gangs = {name: (random.randint(1, 4), False) for name in "abc"}
    found = groups(decide(cluster(rows, gangs, dict.fromkeys(OWNERS, 0)), OLDEST))
    bound = {name: sum(row[1] == name for row in rows) for name in gangs}
    running = {name for name, (least, _) in gangs.items() if bound[name] >= least}
    for group in found.values():
        gone = dict.fromkeys(gangs, 0)
        left = [rows[int(name[-2:])][1] for name in group.pods]
        for at_gang in list(left):
            left.pop(0)
            gone[at_gang] += 1
            torn = {name for name in running if bound[name] - gone[name] < gangs[name][0] and name in left}
            assert len(torn) <= 1
            assert not torn or {name for name in left if name not in running} == set()
