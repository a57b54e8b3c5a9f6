"""Objects derived from snapshots: built once, reused after a delta, bounded by memory, without effect on answers."""

import threading
import tracemalloc
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from opentelemetry.metrics import NoOpMeterProvider

from tests.builders import device_objects as dra
from tests.builders import kubernetes as k8s
from tests.builders.waiting import LIMIT_S
from trimtab.common.rpc.errors import ServiceError
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.service.request_handler import Caller, RequestHandler
from trimtab.planner.service.session import CachedSnapshot, Session, Sessions, size_of
from trimtab.planner.service.warm_up import NOW_S, small_cluster
from trimtab.planner.snapshot.caches import SnapshotKey, SuccessorKey
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb


def after(base: CachedSnapshot, delta: pb.SnapshotDelta) -> CachedSnapshot:
    return CachedSnapshot(apply_delta(base.snapshot, delta, base), base)


def cordoned() -> pb.SnapshotDelta:
    """Return a delta that only makes node a unschedulable."""
    delta = pb.SnapshotDelta()
    cluster = small_cluster()
    changed = delta.changed
    changed.CopyFrom(cluster)
    changed.nodes[0].unschedulable = True
    del changed.nodes[1:]
    return delta


@dataclass(frozen=True)
class NamedKey(SnapshotKey[Any]):
    """A key for tests."""

    name: str


class LineKey(SuccessorKey[str]):
    """A key whose value is handed on."""


X = NamedKey("x")


class CountedBuild:
    """Computes a value from some fields, and counts how often."""

    def __init__(self, *of: str) -> None:
        self.count, self.of = 0, of

    def __call__(self, snapshot: Snapshot) -> list[int]:
        for field in self.of:
            attrgetter(field)(snapshot)
        self.count += 1
        return [self.count]


@pytest.mark.parametrize(
    ("of", "is_handed_on"),
    [
        pytest.param(("specs",), True, id="a table that stays"),
        pytest.param(("specs", "pods.spec", "resources"), True, id="several, one a column"),
        pytest.param(("nodes.allocatable", "nodes.name"), True, id="columns of a table that changes"),
        pytest.param(("nodes._fields",), False, id="a table that changes"),
        pytest.param(("specs", "nodes.unschedulable"), False, id="one of two changes"),
        pytest.param(("version",), False, id="of everything"),
        pytest.param((), True, id="of nothing"),
    ],
)
def test_what_was_derived_of_unchanged_fields_holds_after_a_delta(of: tuple[str, ...], is_handed_on: bool) -> None:
    base, build = CachedSnapshot(canonicalize(small_cluster())), CountedBuild(*of)
    first = base.get(X, base.snapshot, build)
    following = after(base, cordoned())
    second = following.get(X, following.snapshot, build)
    assert (second is first) == is_handed_on
    assert build.count == 2 - is_handed_on


def test_what_is_handed_on_once_is_handed_on_again() -> None:
    base, build = CachedSnapshot(canonicalize(small_cluster())), CountedBuild("specs")
    first = base.get(X, base.snapshot, build)
    middle = after(base, cordoned())
    last = after(middle, pb.SnapshotDelta())
    assert last.get(X, last.snapshot, build) is first


def test_keys_of_two_classes_never_meet() -> None:
    base = CachedSnapshot(canonicalize(small_cluster()))

    class OneKey(SnapshotKey[int]):
        pass

    class OtherKey(SnapshotKey[int]):
        pass

    assert base.get(OneKey(), base.snapshot, lambda _: 1) == 1
    assert base.get(OtherKey(), base.snapshot, lambda _: 2) == 2


def test_what_is_put_is_found_with_the_next_snapshot_until_that_has_its_own() -> None:
    base, key = CachedSnapshot(canonicalize(small_cluster())), LineKey()
    assert base.find(key) is None
    base.put(key, "first")
    second = after(base, cordoned())
    third = after(second, pb.SnapshotDelta())
    assert (base.find(key), second.find(key), third.find(key)) == ("first", "first", None)
    second.put(key, "second")
    assert (base.find(key), second.find(key)) == ("first", "second")
    assert after(second, cordoned()).find(key) == "second"


def test_what_could_not_be_built_is_built_the_next_time() -> None:
    base = CachedSnapshot(canonicalize(small_cluster()))
    with pytest.raises(ZeroDivisionError):
        base.get(X, base.snapshot, lambda _: 1 // 0)
    assert base.get(X, base.snapshot, lambda _: 5) == 5


@pytest.mark.parametrize("is_there", [False, True])
def test_a_value_depends_on_what_its_parts_depend_on(is_there: bool) -> None:
    base, inner = CachedSnapshot(canonicalize(small_cluster())), CountedBuild("nodes.unschedulable")
    if is_there:
        base.get(NamedKey("inner"), base.snapshot, inner)

    def outer(cache: CachedSnapshot) -> int:
        def compute(view: Snapshot) -> int:
            return int(cache.get(NamedKey("inner"), view, inner)[0]) + len(view.specs)

        found: int = cache.get(NamedKey("outer"), cache.snapshot, compute)
        return found

    first = outer(base)
    following = after(base, cordoned())
    assert outer(following) == first + 1
    assert outer(after(following, pb.SnapshotDelta())) == first + 1


@pytest.mark.parametrize(("users", "differs"), [(1, False), (2, True)])
def test_pods_are_checked_for_themselves_where_plans_take_several_together(users: int, differs: bool) -> None:
    pods = [dra.claiming_pod(f"p{at}", claims={"x": "shared"}) for at in range(users)]
    objects = [dra.device_class(), dra.resource_claim("shared"), k8s.node("a"), dra.gpus("a"), *pods]
    kept = CachedSnapshot(canonicalize(k8s.snapshot_of(*objects)))
    assert (kept.checked() is not kept.planned()) == differs
    assert kept.checked() is kept.checked()


def test_two_calls_at_once_build_once() -> None:
    base, build = CachedSnapshot(canonicalize(small_cluster())), CountedBuild()
    start = threading.Barrier(8)

    def call() -> None:
        start.wait(LIMIT_S)
        base.get(X, base.snapshot, build)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert build.count == 1


def test_values_count_and_go_before_the_snapshot_does() -> None:
    snapshot = canonicalize(small_cluster())
    sessions = Sessions(2 * size_of(snapshot))
    session, cached = sessions.get("me", "c"), CachedSnapshot(snapshot)
    cached.get(X, snapshot, lambda _: np.zeros(size_of(snapshot), np.int64))
    session.keep_snapshot(cached)
    sessions.keep("me", "c", session)
    assert sessions.get("me", "c").snapshots.get(snapshot.version) is cached
    assert cached.size() == size_of(snapshot)


def test_plans_without_state_do_not_pile_up() -> None:
    """A caller without state gets different unneeded times in each call: another plan, the same snapshot."""
    snapshot = canonicalize(small_cluster())
    cached, session, sizes = CachedSnapshot(snapshot), Session(), set()
    session.keep_snapshot(cached)
    for second in range(60):
        request = asked()
        request.now.seconds += second
        answer = plan(snapshot, request, None, Work(cache=cached))
        assert answer.scale_down.unneeded
        session.keep_state(answer.state)
        sizes.add(session.size())
    assert len(sizes) == 2, "one state, then two"


def filled(limit: int | None, *sizes: int) -> Sessions:
    """Return sessions with states of these sizes, by number."""
    sessions = Sessions(limit)
    for number, size in enumerate(sizes):
        grow(sessions, number, size)
    return sessions


def grow(sessions: Sessions, number: int, size: int) -> None:
    session = sessions.get("", str(number))
    session.keep_state(state(number, size))
    sessions.keep("", str(number), session)


def state(number: int, size: int = 0) -> plan_pb2.PlanState:
    return plan_pb2.PlanState(scale_up=plan_pb2.ScaleUpState(opaque=bytes([number]) * size))


def kept(sessions: Sessions, count: int, size: int = 4000) -> list[bool]:
    """Return which sessions still have their states."""
    versions = [Session().keep_state(state(number, size)) for number in range(count)]
    return [sessions.get("", str(number)).state(version) is not None for number, version in enumerate(versions)]


def test_sessions_used_longest_ago_go_as_a_whole() -> None:
    sessions = filled(11_500, 4000, 4000)
    sessions.get("", "0")
    grow(sessions, 2, 4000)
    assert kept(sessions, 3) == [True, False, True]
    assert kept(filled(None, *[4000] * 50), 50) == [True] * 50


@pytest.mark.parametrize("limit", [0, 3000])
def test_a_session_that_is_too_large_alone_is_not_kept(limit: int) -> None:
    assert kept(filled(limit, 4000), 1) == [False]


def test_callers_and_clusters_have_sessions_of_their_own() -> None:
    sessions = Sessions(1 << 20)
    session = sessions.get("me", "c")
    assert sessions.get("me", "c") is session
    assert sessions.get("you", "c") is not session
    assert sessions.get("me", "d") is not session


def test_a_session_keeps_the_base_that_is_used_and_the_newest_snapshot() -> None:
    base, session = CachedSnapshot(canonicalize(small_cluster())), Session()
    session.keep_snapshot(base)
    versions = []
    for pod in ("default/gone", "default/bound"):
        assert session.snapshots.get(base.snapshot.version) is base
        following = after(base, pb.SnapshotDelta(deleted_pods=[pod]))
        session.keep_snapshot(following)
        versions.append(following.snapshot.version)
    assert [session.snapshots.get(version) is not None for version in versions] == [False, True]


def asked() -> plan_pb2.PlanRequest:
    message = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN])
    message.now.seconds = NOW_S
    message.settings.scale_down.unneeded_time.seconds = 0
    return message


@pytest.mark.parametrize("cache_bytes", [1 << 24, 40_000, 0], ids=["all kept", "hardly anything kept", "nothing kept"])
def test_no_answer_depends_on_what_is_kept(cache_bytes: int) -> None:
    """A sequence of snapshots, whole and by delta, with state, compared with a new handler."""
    meter = NoOpMeterProvider().get_meter("test")
    handler = RequestHandler(meter, cache_bytes, log_decisions=False)
    request, cluster = asked(), small_cluster()
    for step in range(4):
        delta = pb.SnapshotDelta()
        delta.changed.CopyFrom(cluster)
        cluster.nodes[step % 3].unschedulable ^= True
        delta.changed.nodes[step % 3].unschedulable ^= True
        request.now.seconds += 60
        answers = []
        if request.base_version:
            # The base is known for certain only if there is room for all.
            with nullcontext() if cache_bytes == 1 << 24 else suppress(ServiceError):
                answers.append(handler.plan(request, delta.SerializeToString(), Caller()))
        request.base_version = ""
        for one in (handler, handler, RequestHandler(meter, 0, log_decisions=False)):
            answers.append(one.plan(request, cluster.SerializeToString(), Caller()))
        for answer in answers:
            answer.ClearField("diagnostics")
        assert all(answer == answers[-1] for answer in answers)
        request.state.CopyFrom(answers[0].state)
        request.base_version = answers[0].snapshot_version


def test_arrays_and_texts_count_with_their_bytes() -> None:
    assert size_of(np.zeros(1000, np.int64)) == 8000
    assert size_of("x" * 10_000_000) > 10_000_000
    snapshot = canonicalize(small_cluster())
    assert size_of(snapshot) > sum(array.nbytes for array in snapshot.pods if isinstance(array, np.ndarray))


def test_what_is_held_twice_counts_once() -> None:
    array, names = np.zeros(10_000, np.int64), tuple(f"name-{i}" for i in range(10_000))
    assert size_of((array, array)) < 1.1 * size_of((array,))
    assert size_of((array[:10], array, array.view(np.uint8), array.reshape(100, 100))) < 1.1 * size_of((array,))
    assert size_of((names, {"again": names})) < 1.1 * size_of((names,))


def test_a_part_of_an_array_keeps_all_of_it() -> None:
    assert size_of(np.zeros(10_000, np.int64)[:10]) == 80_000
    assert size_of(np.frombuffer(b"x" * 10_000, np.uint8)) == 10_000


def test_what_is_made_only_to_be_counted_is_not_taken_for_something_else() -> None:
    """Python reuses the address of a deleted object for the next one."""
    tables = tuple({f"{table} {i}": f"{table} value {i}" for i in range(100)} for table in range(50))
    assert size_of(tables) > 40 * size_of(tables[:1])


class Holder:
    """An object that is not a tuple."""

    def __init__(self) -> None:
        self.found = {("a", i): np.zeros(1000, np.bool_) for i in range(100)}


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: tuple(f"{i:>1000}" for i in range(1000)), id="many long texts"),
        pytest.param(lambda: tuple(f"{i:>1000}" for i in range(10)), id="few long texts"),
        pytest.param(lambda: tuple(f"name-{i}" for i in range(50_000)), id="names"),
        pytest.param(lambda: {f"name-{i}": i + 1000 for i in range(20_000)}, id="names by number"),
        pytest.param(lambda: tuple(((f"key-{i}", "v"), (f"other-{i}", "w")) for i in range(10_000)), id="labels"),
        pytest.param(Holder, id="arrays by key within an object"),
    ],
)
def test_what_is_kept_counts_as_what_it_takes_within_a_factor(make: Callable[[], object]) -> None:
    tracemalloc.start()
    try:
        held = make()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken / 2 < size_of(held) < taken * 5
