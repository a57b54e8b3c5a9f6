"""Objects kept from one plan to the next change no answer: without them the bytes are the same."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.slack import NOW_S, cluster, node, pod, spec
from tests.builders.snapshots import Cluster, write, write_delta
from trimtab.planner.decisions.plan import plan
from trimtab.planner.model.values import AffinityTerm, LabelRequirement, SlackRequest
from trimtab.planner.round.work import Work
from trimtab.planner.service.version_cache import CachedSnapshot, CacheScope, VersionCache
from trimtab.planner.slack.encode import encoded
from trimtab.planner.slack.objects import build_object_requests
from trimtab.planner.slack.specs import SpecWriter
from trimtab.planner.slack.state import recall, remember
from trimtab.planner.snapshot.columns import NO_NODE, UNKNOWN_NODE
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.snapshot_pb2 import LabelOperator

WEB = (LabelRequirement("app", LabelOperator.IN, ("web",)),)
APART = AffinityTerm(WEB, ("default",), None, "kubernetes.io/hostname")
SPECS = (
    spec(500),
    spec(1500, 3),
    spec(200, node_selector=(("zone", "a"),)),
    spec(300, pod_anti_affinity=(APART,)),
    spec(99_000),
)
CHANGES = ("nothing", "pods", "node", "objects", "settings")


def drawn_object(random: Random, number: int) -> SlackRequest:
    """Return a workload or a buffer, sometimes with a problem."""
    labels: tuple[tuple[str, str], ...] = random.choice(((), (("app", "web"),)))
    if random.random() < 0.5:
        count = random.choice(("0", "1", "3", "50%", "many"))
        return SlackRequest(f"Deployment/default/w{number}", "", "default", random.choice(SPECS), labels, 4, count)
    asked: dict[str, Any] = random.choice(({"replicas": 2}, {"percentage": 50}, {"replicas": 3, "percentage": 10}))
    return SlackRequest(
        f"CapacityBuffer/default/b{number}", "", "apart", random.choice(SPECS), labels, random.choice((4, -1)), **asked
    )


def drawn_pods(random: Random, nodes: int) -> dict[str, str]:
    return {f"p{i}": random.choice(("", f"n{random.randrange(nodes):02}")) for i in range(random.randrange(12))}


def changed(random: Random, before: Cluster) -> Cluster:
    """Return the cluster of the next loop."""
    what = random.choice(CHANGES)
    if what == "pods":
        rows = {("default", name): pod(name, at) for name, at in drawn_pods(random, 3).items()}
        return replace(before, pods=rows)
    if what == "node":
        name = f"m{random.randrange(3)}"
        nodes = {one: row for one, row in before.nodes.items() if one != name}
        return replace(before, nodes=nodes if name in before.nodes else nodes | {name: node(name)})
    if what == "objects":
        return replace(before, slack=tuple(drawn_object(random, i) for i in range(random.randrange(5))))
    return before


def drawn_settings(random: Random) -> dict[str, Any]:
    slack = {
        "extraCapacityMinRate": random.choice((0.0, 0.2, 1.5)),
        "strategy": random.choice(("EQUAL", "LARGEST_POD")),
        "capacityBufferReading": random.choice(("LARGER", "SMALLER")),
    }
    if random.random() < 0.3:
        slack["pools"] = [{"name": "a", "nodes": {"matchLabels": {"pool": "a"}}, "extraCapacityMinRate": 0.3}]
    return {"slack": slack}


def request_for(given: dict[str, Any], loop: int) -> pb.PlanRequest:
    request = pb.PlanRequest(decisions=[pb.Decision.SLACK, pb.Decision.SCALE_UP, pb.Decision.SCALE_DOWN])
    request.now.seconds = NOW_S + 10 * loop
    ParseDict(given, request.settings)
    return request


def written(answer: pb.PlanResponse) -> bytes:
    return answer.SerializeToString(deterministic=True)


@pytest.mark.ci
@given(st.integers(0, 2**32))
@examples(15, 8)
def test_loops_with_everything_kept_answer_as_with_nothing_kept(seed: int) -> None:
    random = Random(seed)
    now = replace(cluster(3, drawn_pods(random, 3)), slack=tuple(drawn_object(random, i) for i in range(4)))
    cache, asked, state = VersionCache(1 << 26), drawn_settings(random), None
    kept = CachedSnapshot(canonicalize(write(now)))
    for loop in range(5):
        request, fresh = request_for(asked, loop), canonicalize(write(now))
        work = Work(cache=kept, encodings=cache.parts(CacheScope("", "")))
        first = plan(kept.snapshot, request, state, work)
        assert written(first) == written(plan(fresh, request, state, Work()))
        assert written(first) == written(plan(kept.snapshot, request, state, work))
        state = first.state
        following = changed(random, now)
        asked = drawn_settings(random) if random.random() < 0.2 else asked
        delta = write_delta(now, following, loop)
        kept, now = CachedSnapshot(apply_delta(kept.snapshot, delta, kept), kept), following


def test_a_writer_continues_with_the_dictionary_of_another() -> None:
    first, whole = SpecWriter(), SpecWriter()
    for writer in (first, whole):
        assert [writer.spec(one) for one in SPECS[:3]] == [0, 1, 2]
        assert writer.label_set((("app", "web"),)) == 1
    before = first.encoded()
    more = SpecWriter(first)
    assert [more.spec(SPECS[at]) for at in (1, 3, 4)] == [1, 3, 4]
    assert more.label_set((("app", "db"),)) == 2
    found = type(whole.finish()).FromString(more.encoded(before, first))
    assert [len(one.pod_anti_affinity) for one in found.pod_specs] == [0, 0, 0, 1, 0]
    strings = [found.strings[at] for at in memoryview(found.label_sets.values).cast("i")]
    assert strings == ["web", "db"]
    assert len(set(found.strings)) == len(found.strings)
    # The first one still writes the same as before.
    assert [first.spec(one) for one in SPECS[:3]] == [0, 1, 2]


def test_sets_behind_kept_ones_leave_these_as_they_are() -> None:
    one, two = (SlackRequest(f"Pod/a/{name}", "", "a", spec(100), (("app", name),), 1, "1") for name in "ab")
    kept = encoded(build_object_requests((one,), False).sets)
    before = kept.dictionary, kept.placeholders
    both = kept.and_of(build_object_requests((two,), False).sets)
    assert both.row == {"Pod/a/a": 0, "Pod/a/b": 1}
    assert both.placeholders[0] == kept.placeholders[0]
    assert (kept.dictionary, kept.placeholders) == before
    assert kept.and_of(()) is kept


def states(**columns: bytes) -> pb.SlackState:
    """Return a state of two sets on nodes a and b, the second with its own columns."""
    good = pb.SlackSetState(name="good", size={"cpu": 1}, number=int32(0, 2), node=int32(1, 0))
    second: dict[str, Any] = {"number": int32(1), "node": int32(2)} | columns
    return pb.SlackState(strings=["", "a", "b"], sets=[good, pb.SlackSetState(name="bad", **second)])


def int32(*values: int) -> bytes:
    return b"".join(one.to_bytes(4, "little", signed=True) for one in values)


def test_sets_are_recalled_as_columns_and_written_again_as_they_were() -> None:
    memory, notes = recall(states(), lambda: {"a": 4})
    assert not notes
    assert memory.row == {"good": 0, "bad": 1}
    assert memory.bounds.tolist() == [0, 2, 3]
    assert (memory.number.tolist(), memory.node.tolist()) == ([0, 2, 1], [4, NO_NODE, UNKNOWN_NODE])
    assert memory.sizes(["good", "none"]) == {"good": {"cpu": 1}}
    heads = [(pb.SlackSetState(name="good").SerializeToString(), slice(0, 2))]
    again = pb.SlackState.FromString(remember(heads, memory.number[:2], memory.node[:2], list("uvwxyz")))
    assert again.strings == ["", "y"]
    assert [(one.name, one.number, one.node) for one in again.sets] == [("good", int32(0, 2), int32(1, 0))]


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        pytest.param({"node": b"x"}, "bad.node are not a multiple of 4", id="cut off"),
        pytest.param({"node": int32(1, 2)}, "columns of bad differ in length", id="of other lengths"),
        pytest.param({"number": int32(-1)}, "bad.number is not ascending", id="below 0"),
        pytest.param({"number": int32(3, 3), "node": int32(1, 1)}, "bad.number is not ascending", id="twice"),
        pytest.param({"node": int32(3)}, "bad.node refers to a missing string", id="beyond the strings"),
        pytest.param({"node": int32(-1)}, "bad.node refers to a missing string", id="before the strings"),
    ],
)
def test_what_is_wrong_with_a_state_is_said_with_the_name_of_the_set(columns: dict[str, bytes], problem: str) -> None:
    memory, notes = recall(states(**columns), dict)
    assert not memory.row
    assert problem in notes[0]
