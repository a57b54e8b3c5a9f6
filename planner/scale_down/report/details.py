"""Details of a reason, for people: since when, which pod, which limit. One short clause per node, if there is anything
to add to the reason itself.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from trimtab.planner.drainability import outcome
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.scale_down.context import ScaleDownContext
from trimtab.planner.scale_down.report.texts import NodeTexts, unremovable_name
from trimtab.planner.scale_down.search.displaced import name_of
from trimtab.planner.scale_down.search.fewer_placeholders import SlackDependentNodes
from trimtab.planner.scale_down.selection.removal import Removal
from trimtab.planner.scale_down.whole_gangs import WholeGangs
from trimtab.planner.snapshot.columns import Int32, UInt8
from trimtab.v1 import reason_pb2

Reason = reason_pb2.UnremovableReason
WHOLE: Final = "its node group is removed as a whole or not at all"
WHOLE_GANG: Final = "waits until all nodes of its gang, which moves whole, can be drained at the same time"
NEW_NODES: Final = "waits for new nodes, which were requested for slack that fits on this node"
WITH_OTHERS: Final = "waits for the other unneeded nodes: slack shrinks only once they are removed as well"
UNDONE: Final = "drains wait {seconds} s more: pods of the last drain took room that slack keeps"
LATER: Final = "goes in a later wave, when disruption budgets allow evictions again"
DELAYED: Final = "its deletion waits up to 2 minutes for the removal of a delay-deletion annotation"


def why_waiting(
    context: ScaleDownContext,
    codes: UInt8,
    nodes: Int32,
    removal: Removal,
    slack_dependent: SlackDependentNodes,
    gangs: WholeGangs,
) -> Mapping[int, str]:
    """Return by node why an unneeded node does not go now. codes : uint8[P] of pods; nodes : int32[U]; slack_dependent
    : those that go only because slack then requests less.
    """
    texts = {
        int(Reason.NOT_UNNEEDED_OTHER_REASON): "waits until fewer deletions are in progress",
        int(Reason.ATOMIC_SCALE_DOWN_FAILED): WHOLE,
        int(Reason.BALANCE): "waits until larger node groups and zones of its kind have shrunk",
        int(Reason.IN_COOLDOWN): context.cooldown.cluster,
        int(Reason.NEEDED_FOR_SLACK): _why_slack(context, slack_dependent),
        int(Reason.CLUSTER_UNHEALTHY): context.unhealthy,
        int(Reason.LATER_WAVE): LATER,
        int(Reason.DISRUPTION_BUDGET): "waits until its pool's disruption budget lets a further node go",
    }
    rows = list(zip(nodes.tolist(), removal.not_now.tolist(), strict=True))
    delayed = context.request.snapshot.nodes.deletion_delayed
    found = {node: DELAYED for node, reason in rows if reason == 0 and delayed[node]}
    found |= {node: texts[reason] for node, reason in rows if reason in texts}
    other = Reason.NOT_UNNEEDED_OTHER_REASON
    together = {node for node, reason in rows if reason == other and gangs.of_node[node] >= 0}
    found |= dict.fromkeys(together, WHOLE_GANG)
    waiting = {node for node, reason in rows if reason == Reason.BLOCKED_BY_ON_COMPLETION_POD}
    if waiting:
        found |= _awaited(context, codes, waiting)
    return found


def _why_slack(context: ScaleDownContext, slack_dependent: SlackDependentNodes) -> str:
    """Return the text on what slack waits for."""
    slack, wait_ns = context.slack, context.undone.until_ns - context.request.now_ns
    if slack and not slack.lacking and wait_ns > 0:
        return UNDONE.format(seconds=-(-wait_ns // SECOND_NS))
    # Such nodes exist only while no placeholder waits for a new node.
    return WITH_OTHERS if len(slack_dependent.nodes) else NEW_NODES


def _awaited(context: ScaleDownContext, codes: UInt8, waiting: set[int]) -> dict[int, str]:
    """Return by node the pods that have to complete first."""
    node_of = context.request.snapshot.pods.node
    pods: dict[int, list[int]] = {}
    for pod in np.flatnonzero((codes == outcome.WAIT) & (node_of >= 0)).tolist():
        pods.setdefault(int(node_of[pod]), []).append(pod)
    return {node: _pods_text(context, pods[node]) for node in sorted(waiting)}


def _pods_text(context: ScaleDownContext, pods: list[int]) -> str:
    more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
    return f"waits for pod {name_of(context, pods[0])}{more} to complete"


def put_why_staying(context: ScaleDownContext, reasons: UInt8, texts: NodeTexts) -> None:
    """Add details on why nodes stay. reasons : uint8[N], 0 = the node does not stay."""
    _put_recently_failed(context, reasons, texts)
    most = context.request.round.settings.max_balance_difference
    of_reason = {
        Reason.UNEXPECTED_ERROR: "the node has no allocatable cpu or memory",
        Reason.NOT_UNNEEDED_OTHER_REASON: "its removal saves too little per pod that would have to move",
        Reason.ATOMIC_SCALE_DOWN_FAILED: WHOLE,
        Reason.BALANCE: f"similar node groups and their zones may differ by {most} at most",
    }
    for reason, text in of_reason.items():
        texts.put_one(_with(reasons, reason), text)
    cooling = _with(reasons, Reason.IN_COOLDOWN)
    group = context.request.snapshot.nodes.group[cooling]
    for row in np.unique(group).tolist():
        texts.put_one(cooling[group == row], context.cooldown.groups[row])


def _with(reasons: UInt8, reason: int) -> Int32:
    """Return the nodes with a reason. int32."""
    return np.flatnonzero(reasons == reason).astype(np.int32)


def _put_recently_failed(context: ScaleDownContext, reasons: UInt8, texts: NodeTexts) -> None:
    """Add, for nodes whose failed simulation is still valid, its result and how long ago it was."""
    failed = context.previous.failed
    rows = np.flatnonzero(reasons[failed.node] == Reason.RECENTLY_UNREMOVABLE)
    ages_s = (context.request.now_ns - failed.time_ns[rows]) // SECOND_NS
    # Most failed in the same loop, for one of a few reasons.
    pairs, of = np.unique(np.stack([failed.reason[rows], ages_s]), axis=1, return_inverse=True)
    found = [f"{unremovable_name(why)} {age_s} s ago" for why, age_s in pairs.T.tolist()]
    texts.put_shared(failed.node[rows], found, of.reshape(-1).astype(np.int32))
