"""Replacements in a round: which wave is started, and what the planner is told of those that have ended.

Decides when a wave is started: one at a time, and while no drain is in progress or due in the same round, so that what
the plan found together moves one part after the other, and while no node of it is to take pods of scale-down. What the
actuator found is written into the planner's state: node groups that gave no node, or whose new nodes were given back,
are avoided for a time, and nodes that came by a replacement stay until it has paid for itself. The rest of the state is
the planner's own.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from google.protobuf.duration_pb2 import Duration

from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2

REPLACEMENT: Final = plan_pb2.Decision.REPLACEMENT
MOST_ALTERNATIVES: Final = 3
"""Node groups that are tried in place of one that gives no node."""
LEAST_SHARE: Final = 0.5
"""Least share of the planned saving that must be achieved: with less, another plan is better."""
AVOID_S: Final = 3600.0
PAYBACK_S: Final = 86_400.0
"""Default of `ReplacementSettings.avoid_time` and of `max_payback_time`."""

_STAGE = actuator_pb2.ReplacementStage
_FINAL: Final = frozenset({_STAGE.DONE, _STAGE.FAILED, _STAGE.CANCELLED})
_NODE = actuator_pb2.ReplacementNewNodeState
_CAME: Final = frozenset({_NODE.READY, _NODE.STAYS})
_NOT_THE_GROUPS_FAULT: Final = frozenset({reason_pb2.ReplacementReason.REPLACEMENT_CANCELLED})


def is_over(replacement: actuator_pb2.Replacement) -> bool:
    """Return whether a replacement has ended."""
    return replacement.stage in _FINAL


def in_progress(status: actuator_pb2.ActuatorStatus | None) -> list[actuator_pb2.Replacement]:
    """Return the replacements in progress."""
    return [one for one in status.replacements if not is_over(one)] if status is not None else []


def may_start(answer: plan_pb2.PlanResponse, status: actuator_pb2.ActuatorStatus | None) -> bool:
    """Return whether the first wave of a plan may be started now."""
    if not answer.replacement.waves or not answer.replacement.waves[0].leaving or in_progress(status):
        return False
    if status is not None and any(one.drain for one in status.deletions):
        return False
    taking = set(answer.scale_down.places.nodes[at] for at in answer.scale_down.places.destinations)
    return not answer.scale_down.drain and taking.isdisjoint(one.node for one in answer.replacement.waves[0].leaving)


def replacement_order(
    request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse, prices: Mapping[str, float]
) -> actuator_pb2.StartReplacementRequest:
    """Return the order for the first wave. prices : of a node for one hour by node group, where known."""
    wave = answer.replacement.waves[0]
    least = request.settings.replacement.min_saving_per_hour if len(answer.replacement.waves) == 1 else 0.0
    if wave.saving_per_hour < 0:
        least = wave.saving_per_hour
    else:
        least = min(wave.saving_per_hour, max(least, LEAST_SHARE * wave.saving_per_hour))
    groups = {group for node in wave.new_nodes for group in node.alternatives}
    return actuator_pb2.StartReplacementRequest(
        request_id=f"{request.request_id}-replace",
        wave=wave,
        plan_time=request.now,
        snapshot_version=answer.snapshot_version,
        min_saving_per_hour=least,
        max_alternatives=MOST_ALTERNATIVES,
        prices_per_hour={group: prices[group] for group in sorted(groups) if group in prices},
    )


class ReplacementMemory:
    """Tells the planner how replacements ended, each once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(
        self,
        session: PlannerSession,
        status: actuator_pb2.ActuatorStatus | None,
        settings: plan_pb2.ReplacementSettings,
    ) -> None:
        """Write the outcome of the replacements that have ended into the state of the planner's next request. Without
        a state, as before the first round, it is written later.
        """
        ended = [one for one in status.replacements if is_over(one)] if status is not None else []
        new = [one for one in ended if one.request_id not in self._told]
        if session.state is None or not new:
            return
        session.edit_state(lambda state: note_outcomes(state.replacement, new, settings))
        self._told = {one.request_id for one in ended}


def note_outcomes(
    state: plan_pb2.ReplacementState,
    ended: Iterable[actuator_pb2.Replacement],
    settings: plan_pb2.ReplacementSettings,
) -> None:
    """Write into a state, in place, which node groups are avoided and which nodes stay, until when."""
    avoid_ns = _ns(settings.avoid_time, AVOID_S, settings.HasField("avoid_time"))
    payback_ns = _ns(settings.max_payback_time, PAYBACK_S, settings.HasField("max_payback_time"))
    avoided: dict[str, int] = {}
    paid_back: dict[str, int] = {}
    for one in ended:
        end_ns = one.stage_time.ToNanoseconds()
        for node in one.new_nodes:
            if one.stage == _STAGE.DONE and node.state in _CAME:
                paid_back[node.node] = end_ns + payback_ns
            if one.reason in _NOT_THE_GROUPS_FAULT:
                continue
            for group in node.failed_node_groups:
                avoided[group] = end_ns + avoid_ns
            if node.state == _NODE.GIVEN_BACK:
                avoided[node.node_group] = end_ns + avoid_ns
    for column, times in ((state.avoided_groups, avoided), (state.paid_back, paid_back)):
        if times:
            _merge(state, column, times)


def _merge(state: plan_pb2.ReplacementState, column: plan_pb2.NodeTimes, times: Mapping[str, int]) -> None:
    """Add entries to columns of a state, in place; of two times of one name the later one stays."""
    if not state.strings:
        state.strings.append("")
    known = {name: index for index, name in enumerate(state.strings)}
    names = [state.strings[index] for index in np.frombuffer(column.node, "<i4").tolist()]
    merged: dict[int, int] = {}
    own = zip(names, np.frombuffer(column.time_ns, "<i8").tolist(), strict=True)
    for name, until_ns in (*own, *sorted(times.items())):
        if name not in known:
            known[name] = len(state.strings)
            state.strings.append(name)
        merged[known[name]] = max(until_ns, merged.get(known[name], 0))
    column.node = np.array(list(merged), "<i4").tobytes()
    column.time_ns = np.array(list(merged.values()), "<i8").tobytes()


def _ns(given: Duration, default_s: float, is_given: bool) -> int:
    return given.ToNanoseconds() if is_given else int(default_s * 1e9)
