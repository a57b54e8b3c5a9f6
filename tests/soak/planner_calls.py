"""Calls to a planner: snapshots, deltas, bad input, streams that end midway."""

from collections.abc import Iterator, Sequence
from functools import partial
from random import Random
from typing import Final

import grpc

from tests.fuzz.mutations import damaged, flipped
from tests.soak.callers import break_connection
from trimtab.clients.planner_client import PlannerClient
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.v1 import plan_pb2, planner_pb2, planner_pb2_grpc, snapshot_pb2

NOW_S: Final = 1_770_000_000
DECISIONS: Final = (plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN, plan_pb2.Decision.REPLACEMENT)
PIECE: Final = 200_000
TIMEOUT_S: Final = 120.0
ONCE: Final = RetryPolicy(attempts=1)


class PlannerCalls:
    """The calls of one caller to a planner.

    snapshots : of one cluster at several times, between which deltas are sent.
    """

    def __init__(self, address: str, snapshots: Sequence[snapshot_pb2.ClusterSnapshot]) -> None:
        self._snapshots = snapshots
        self._client = PlannerClient(address, ONCE, TIMEOUT_S)
        self._channel = connect(address)
        self._stub = planner_pb2_grpc.PlannerStub(self._channel)
        self._now_s = NOW_S
        self._state: plan_pb2.PlanState | None = None
        self.calls = {
            "plan in turn": self._plan,
            "plan again": self._plan,
            "whole snapshot": self._whole,
            "unknown base": self._unknown_base,
            "damaged snapshot": self._damaged,
            "damaged stream": self._damaged_stream,
            "stream that ends": self._cut,
            "call that is given up": self._given_up,
            "no time": self._no_time,
            "fit, read in part": self._fit,
            "bytes": self._bytes,
            "broken connection": partial(break_connection, address),
        }

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._channel.close()

    def _request(self, **fields: str) -> plan_pb2.PlanRequest:
        self._now_s += 10
        request = plan_pb2.PlanRequest(cluster="soak", **fields)
        request.decisions.extend(DECISIONS)
        request.now.seconds = self._now_s
        return request

    def _plan(self, random: Random) -> None:
        """Plan as a loop does: send the changes since the last call, and the last state."""
        request = self._request()
        if self._state is not None:
            request.state.CopyFrom(self._state)
        self._state = self._client.plan(random.choice(self._snapshots), request).state

    def _whole(self, random: Random) -> None:
        self._send(parts(self._request(), random.choice(self._snapshots).SerializeToString()))

    def _unknown_base(self, random: Random) -> None:
        self._send(parts(self._request(base_version=random.randbytes(16).hex()), b""))

    def _damaged(self, random: Random) -> None:
        message = damaged(self._snapshots[0], random)
        if message is not None:
            self._send(parts(self._request(), message.SerializeToString()))

    def _damaged_stream(self, random: Random) -> None:
        whole = list(parts(self._request(), self._snapshots[0].SerializeToString()))
        at = random.randrange(len(whole))
        whole[at : at + 1] = random.choice(([], [whole[at]] * 2, [planner_pb2.PlanRequestPart()]))
        self._send(iter(whole))

    def _cut(self, random: Random) -> None:
        whole = list(parts(self._request(), self._snapshots[0].SerializeToString()))
        self._send(iter(whole[: random.randrange(len(whole))]))

    def _given_up(self, random: Random) -> None:
        call = self._stub.Plan.future(parts(self._request(), self._snapshots[0].SerializeToString()), timeout=TIMEOUT_S)
        try:
            call.result(timeout=random.choice((0.0, 0.01, 0.1, 0.3)))
        except grpc.FutureTimeoutError:
            call.cancel()

    def _no_time(self, random: Random) -> None:
        self._send(parts(self._request(), self._snapshots[0].SerializeToString()), random.choice((0.001, 0.02, 0.2)))

    def _fit(self, random: Random) -> None:
        answers = self._stub.CheckFit(parts(self._request(), self._snapshots[0].SerializeToString()), timeout=TIMEOUT_S)
        for _ in range(random.randrange(4)):
            next(answers, planner_pb2.CheckFitResponse())
        answers.cancel()

    def _bytes(self, random: Random) -> None:
        """Send bytes that are not a message."""
        call = self._channel.stream_unary("/trimtab.v1.Planner/Plan")
        head = next(parts(self._request(), b"")).SerializeToString()
        call(iter([flipped(head, random)]), timeout=TIMEOUT_S)

    def _send(self, stream: Iterator[planner_pb2.PlanRequestPart], timeout_s: float = TIMEOUT_S) -> None:
        self._stub.Plan(stream, timeout=timeout_s)


def parts(request: plan_pb2.PlanRequest, payload: bytes) -> Iterator[planner_pb2.PlanRequestPart]:
    """Yield a request in small pieces, so the stream can end midway."""
    request.snapshot_size_bytes = len(payload)
    yield planner_pb2.PlanRequestPart(request=request)
    for index, start in enumerate(range(0, len(payload), PIECE)):
        yield planner_pb2.PlanRequestPart(
            snapshot=planner_pb2.SnapshotPart(index=index, data=payload[start : start + PIECE])
        )
