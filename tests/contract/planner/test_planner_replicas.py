"""Three planners behind a load balancer: deltas reach their planner by cluster name, otherwise whole snapshots are
sent.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import blake2b
from itertools import count
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders.differences import difference
from tests.builders.planner_service import make_shell
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.planner_client import GrpcLink
from trimtab.common.rpc.callers import CLUSTER_KEY, SESSION_KEY
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.planner.service.warm_up import NOW_S, small_cluster
from trimtab.v1 import plan_pb2, planner_pb2, snapshot_pb2

FORWARDED: Final = (CLUSTER_KEY, SESSION_KEY)

Choice = Callable[[Mapping[str, str], list[str]], str]
"""Takes the metadata of a call and the names of the available planners, and returns one of them."""


def by_cluster(metadata: Mapping[str, str], names: list[str]) -> str:
    """Choose consistently: if a planner is missing, only its calls go elsewhere."""
    cluster = metadata[CLUSTER_KEY]
    return max(names, key=lambda name: blake2b(f"{cluster} {name}".encode()).digest())


def in_turn() -> Choice:
    """Return a round-robin choice, call by call."""
    turns = count()
    return lambda _metadata, names: names[next(turns) % len(names)]


class Forwarded(NamedTuple):
    """A forwarded call to `Plan`: its planner and cluster, whether it sent a delta, and whether it was answered."""

    planner: str
    cluster: str
    is_delta: bool
    is_answered: bool


class CallBalancer(grpc.GenericRpcHandler):
    """Listens on loopback. planners : addresses by name. Use as a context manager."""

    def __init__(self, planners: Mapping[str, str], choose: Choice) -> None:
        self._choose = choose
        self._channels = {name: connect(address) for name, address in planners.items()}
        self._lock = threading.Lock()
        self._names = list(planners)
        self.plans: list[Forwarded] = []
        self._server = grpc.server(ThreadPoolExecutor(8), handlers=[self])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop(None).wait()
        for channel in self._channels.values():
            channel.close()

    def take_out(self, name: str) -> None:
        """Stop forwarding calls to a planner."""
        with self._lock:
            self._names.remove(name)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler that forwards a call. On the wire each kind of call is a stream of bytes both ways."""
        method, metadata = handler_call_details.method, _forwarded(handler_call_details.invocation_metadata)

        def forward(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            messages = list(requests)
            with self._lock:
                name = self._choose(metadata, list(self._names))
            call = self._channels[name].stream_stream(method)
            try:
                yield from call(iter(messages), metadata=tuple(metadata.items()), timeout=context.time_remaining())
                self._note(name, method, messages[0], is_answered=True)
            except grpc.RpcError as error:
                self._note(name, method, messages[0], is_answered=False)
                failed: Any = error
                context.set_trailing_metadata(failed.trailing_metadata())
                context.abort(failed.code(), failed.details())

        return grpc.stream_stream_rpc_method_handler(forward)

    def _note(self, name: str, method: str, first: bytes, is_answered: bool) -> None:
        if method.endswith("/Plan"):
            request = planner_pb2.PlanRequestPart.FromString(first).request
            with self._lock:
                self.plans.append(Forwarded(name, request.cluster, bool(request.base_version), is_answered))


def _forwarded(metadata: Any) -> dict[str, str]:
    return {key: value for key, value in metadata if key in FORWARDED}


PATIENT = RetryPolicy(total_s=120)
CLUSTERS = [f"cluster/ü {number}" for number in range(6)]
ROUNDS = 3
WHOLE, DELTA, REFUSED = (False, True), (True, True), (True, False)
NO_STATE = REFUSED
"""A planner reports a missing state before it looks for the base."""


@pytest.fixture(scope="module")
def replicas() -> Iterator[Mapping[str, str]]:
    """Yield the addresses of three planners by name. They share this process, but neither bases nor states."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(make_shell()).address for name in ("a", "b", "c")}


class Loop:
    """A caller that plans repeatedly for one cluster whose snapshot changes each time, and also its state if it has
    one.

    whole : send each snapshot whole.
    """

    def __init__(self, address: str, cluster: str, has_state: bool = True, whole: bool = False) -> None:
        self._cluster, self._has_state, self._whole = cluster, has_state, whole
        self._link = GrpcLink(address, policy=PATIENT)
        self._session = PlannerSession(self._link)
        self._turn = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._link.close()

    def plan(self) -> bytes:
        """Return the answer without its durations."""
        cluster = _snapshot(self._turn)
        whole = SnapshotUpdate(cluster, None)
        delta = SnapshotUpdate(None, difference(_snapshot(self._turn - 1), cluster))
        if not self._has_state:
            self._session.resume(None)
        answer, _ = self._session.plan(
            self._request(), whole if self._whole or not self._turn else delta, lambda: whole
        )
        self._turn += 1
        plain = plan_pb2.PlanResponse()
        plain.CopyFrom(answer)
        del plain.diagnostics.stages[:]
        return plain.SerializeToString(deterministic=True)

    def _request(self) -> plan_pb2.PlanRequest:
        return plan_pb2.PlanRequest(
            cluster=self._cluster,
            now=Timestamp(seconds=NOW_S + 60 * self._turn),
            decisions=[plan_pb2.Decision.SCALE_DOWN],
        )


def _snapshot(turn: int) -> snapshot_pb2.ClusterSnapshot:
    snapshot = snapshot_pb2.ClusterSnapshot()
    snapshot.CopyFrom(small_cluster())
    snapshot.nodes[1].provider_id = f"turn-{turn}"
    return snapshot


def alone(address: str, has_state: bool = True) -> list[bytes]:
    """Return the answers of one planner that receives whole snapshots."""
    with Loop(address, "alone", has_state, whole=True) as loop:
        return [loop.plan() for _ in range(ROUNDS)]


def kinds(plans: Iterable[Forwarded]) -> list[tuple[bool, bool]]:
    return [(one.is_delta, one.is_answered) for one in plans]


def test_calls_for_one_cluster_reach_one_planner_and_if_it_ends_only_its_clusters_resend_whole_snapshots(
    replicas: Mapping[str, str],
) -> None:
    expected = alone(replicas["a"])
    with CallBalancer(replicas, by_cluster) as balancer, ExitStack() as stack:
        loops = {name: stack.enter_context(Loop(balancer.address, name)) for name in CLUSTERS}
        for answer in expected:
            assert [loop.plan() for loop in loops.values()] == [answer] * len(CLUSTERS)
        home = {}
        for name in CLUSTERS:
            plans = [one for one in balancer.plans if one.cluster == name]
            assert kinds(plans) == [WHOLE, DELTA, DELTA]
            (home[name],) = {one.planner for one in plans}
        assert len(set(home.values())) > 1

        balancer.plans.clear()
        balancer.take_out(home[CLUSTERS[0]])
        for name, loop in loops.items():
            loop.plan()
            moved = home[name] == home[CLUSTERS[0]]
            expected_kinds = [NO_STATE, REFUSED, WHOLE] if moved else [DELTA]
            assert kinds(one for one in balancer.plans if one.cluster == name) == expected_kinds


@pytest.mark.parametrize(
    ("has_state", "repair"), [(False, [REFUSED, WHOLE]), (True, [NO_STATE, REFUSED, WHOLE])], ids=["snapshot", "state"]
)
def test_if_calls_are_spread_a_whole_snapshot_repairs_each_delta_with_equal_answers(
    replicas: Mapping[str, str], has_state: bool, repair: list[tuple[bool, bool]]
) -> None:
    with CallBalancer(replicas, in_turn()) as balancer, Loop(balancer.address, "spread", has_state) as loop:
        assert [loop.plan() for _ in range(ROUNDS)] == alone(replicas["a"], has_state)
    assert kinds(balancer.plans) == [WHOLE, *repair * (ROUNDS - 1)]
    assert {one.planner for one in balancer.plans} == set(replicas)


def test_the_loop_names_its_cluster_too(replicas: Mapping[str, str]) -> None:
    whole, nothing = (
        SnapshotUpdate(small_cluster(), None),
        SnapshotUpdate(None, snapshot_pb2.SnapshotDelta(), is_empty=True),
    )
    with CallBalancer(replicas, by_cluster) as balancer, GrpcLink(balancer.address, policy=PATIENT) as link:
        session = PlannerSession(link)
        for update in (whole, nothing, nothing):
            request = plan_pb2.PlanRequest(cluster="loop", now=Timestamp(seconds=NOW_S))
            request.decisions.append(plan_pb2.Decision.SCALE_DOWN)
            session.plan(request, update, lambda: whole)
    assert kinds(balancer.plans) == [WHOLE, DELTA, DELTA]
    assert {one.cluster for one in balancer.plans} == {"loop"}
    assert session.whole_count == 1
