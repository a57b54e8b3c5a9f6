"""What scale-down says of each node, written into the verdicts of a plan."""

from collections.abc import Mapping, Sequence

import numpy as np
from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.scale_down.report.answer import Staying, Unneeded
from trimtab.planner.snapshot.columns import Float64, Int64
from trimtab.v1 import plan_pb2 as pb


def judge(
    verdicts: Sequence[pb.NodeVerdict],
    share: Float64,
    unneeded: Unneeded,
    ends_ns: Int64,
    staying: Staying,
    blockers: Mapping[int, Sequence[pb.BlockingPod]],
) -> None:
    """Write what becomes of each node. share : float64[N] utilization, NaN = not computed; ends_ns : int64[U], when the
    timers of the unneeded nodes end, 0 = no timer keeps the node; blockers : all blocking pods of some nodes. O(N).
    """
    for node in np.flatnonzero(~np.isnan(share)).tolist():
        verdicts[node].utilization = share[node]
    _judge_unneeded(verdicts, unneeded, ends_ns)
    _judge_staying(verdicts, staying)
    for node, pods in blockers.items():
        verdicts[node].blocking_pods.extend(pods)


def _judge_unneeded(verdicts: Sequence[pb.NodeVerdict], unneeded: Unneeded, ends_ns: Int64) -> None:
    rows = (unneeded.nodes, unneeded.not_now, unneeded.wave, unneeded.since_ns, ends_ns)
    for node, reason, wave, since_ns, end_ns in zip(*(column.tolist() for column in rows), strict=True):
        verdict = verdicts[node]
        verdict.fate = pb.NodeFate.GOES_LATER if reason else pb.NodeFate.GOES_NOW
        verdict.wave, verdict.reason = wave, reason
        _set_time(verdict.since, since_ns)
        if end_ns:
            _set_time(verdict.goes_at, end_ns)
    for node, text in unneeded.details.items():
        verdicts[node].detail = text


def _set_time(time: Timestamp, time_ns: int) -> None:
    time.seconds, nanos = divmod(time_ns, SECOND_NS)
    if nanos:
        time.nanos = nanos


def _judge_staying(verdicts: Sequence[pb.NodeVerdict], staying: Staying) -> None:
    nodes = staying.nodes
    texts = zip(staying.blocking.pods.of(nodes), staying.details.of(nodes), strict=True)
    why = staying.blocking.why[nodes].tolist()
    for node, reason, code, (pod, detail) in zip(nodes.tolist(), staying.reason.tolist(), why, texts, strict=True):
        verdict = verdicts[node]
        verdict.fate, verdict.reason = pb.NodeFate.STAYS, reason
        if pod:
            verdict.blocking_pod = pod
        if code:
            verdict.blocking_reason = code
        if detail:
            verdict.detail = detail
    for node in np.flatnonzero(np.isin(nodes, list(staying.failed))).tolist():
        verdicts[nodes[node]].predicate_failure_counts.update(staying.failed[int(nodes[node])])
