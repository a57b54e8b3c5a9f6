"""Replacements as messages of the status. Decides only the form. Times are Unix milliseconds."""

from collections.abc import Mapping

from trimtab.actuator.tracker.replacement_states import LeavingNode, NewNode, TrackedReplacement, WaveStage
from trimtab.actuator.tracker.states import TrackerData
from trimtab.v1 import actuator_pb2


class ReplacementMessages:
    """The encoded replacements, each encoded again only when it may have changed."""

    def __init__(self) -> None:
        # Of ended ones, which do not change any more.
        self._ended: dict[tuple[str, int], bytes] = {}

    def encoded(self, data: TrackerData) -> Mapping[str, bytes]:
        """Return all as encoded messages by request id, sorted."""
        ended: dict[tuple[str, int], bytes] = {}
        for one in data.ended_replacements:
            key = (one.request_id, one.stage_ms)
            ended[key] = self._ended.get(key) or replacement_message(one).SerializeToString(deterministic=True)
        self._ended = ended
        found = {request_id: encoded for (request_id, _), encoded in ended.items()}
        for request_id, one in data.replacements.items():
            found[request_id] = replacement_message(one).SerializeToString(deterministic=True)
        return dict(sorted(found.items()))


def replacement_message(replacement: TrackedReplacement) -> actuator_pb2.Replacement:
    """Return one replacement."""
    message = actuator_pb2.Replacement(
        request_id=replacement.request_id,
        stage=int(replacement.stage),  # type: ignore[arg-type]
        new_nodes=[_new_node(node) for node in replacement.ordered_nodes],
        leaving=[_leaving_node(one) for one in replacement.leaving],
        planned_saving_per_hour=replacement.planned_saving,
        achieved_saving_per_hour=replacement.achieved,
        min_saving_per_hour=replacement.min_saving,
        reason=replacement.reason,  # type: ignore[arg-type]
        detail=replacement.detail,
    )
    message.start_time.FromMilliseconds(replacement.start_ms)
    message.stage_time.FromMilliseconds(replacement.stage_ms)
    if replacement.stage is WaveStage.WAITING:
        message.ready_deadline.FromMilliseconds(replacement.deadline_ms)
    return message


def _new_node(node: NewNode) -> actuator_pb2.ReplacementNewNode:
    return actuator_pb2.ReplacementNewNode(
        name=node.name,
        node_group=node.node_group,
        price_per_hour=node.price,
        state=int(node.state),  # type: ignore[arg-type]
        node=node.node,
        failed_node_groups=node.failed,
        detail=node.detail,
    )


def _leaving_node(one: LeavingNode) -> actuator_pb2.ReplacementLeavingNode:
    return actuator_pb2.ReplacementLeavingNode(
        node=one.plan.node,
        node_group=one.plan.node_group,
        price_per_hour=one.plan.price,
        state=int(one.state),  # type: ignore[arg-type]
        reason=one.reason,  # type: ignore[arg-type]
        detail=one.detail,
    )
