"""What the live screen shows, as values: nodes, node groups, pending pods, deletions, growth, sums.

Shares are 0 to 1, prices per hour, times in seconds. Texts are those of the cluster: whoever shows them escapes them.
"""

from enum import StrEnum
from typing import Any, NamedTuple

from trimtab.clients.cli.answers.answer import assumption_of
from trimtab.v1 import plan_pb2


class NodeState(StrEnum):
    """What is about to happen to a node, the most urgent first."""

    MOVING = "moving"  # its deletion is in progress
    NOW = "now"  # the plan deletes it now
    LATER = "later"  # it can go, but not yet
    STAYS = "stays"
    UNKNOWN = "unknown"  # the plan does not mention it


class NodeLine(NamedTuple):
    """A node. cpu, memory : share requested of allocatable, above 1 if more is requested; price : None = unknown;
    verdict : what the plan or the actuator says of it.
    """

    name: str
    group: str
    cpu: float
    memory: float
    pods: int
    price: float | None
    state: NodeState
    verdict: str


class GroupLine(NamedTuple):
    """A node group; id "" = nodes of no group. Sums over its nodes: cpu, memory as in `NodeLine`; price of the nodes
    that have one; going : nodes that can go; added : nodes that the plan adds. least, most : -1 = not known.
    """

    id: str
    nodes: int
    going: int
    added: int
    least: int
    most: int
    cpu: float
    memory: float
    price: float


class PendingLine(NamedTuple):
    """Pods that wait, alike. owner : their controller, else the first pods; reason : what becomes of them; is_served :
    whether they get a place; pods : "namespace/name".
    """

    owner: str
    reason: str
    is_served: bool
    pods: tuple[str, ...]


class RemovalLine(NamedTuple):
    """A deletion of a node. seconds : in its state; pods_gone of pods_total : evicted, if drained, -1 = not known;
    is_over : it has ended.
    """

    node: str
    group: str
    state: str
    seconds: float
    pods_gone: int
    pods_total: int
    is_drain: bool
    is_over: bool
    detail: str


class GrowthLine(NamedTuple):
    """A node group that the plan grows. price : of the new nodes, None = unknown."""

    group: str
    current: int
    new: int
    most: int
    pods: int
    price: float | None
    reason: str


class ClusterScreen(NamedTuple):
    """One plan on one cluster. name : of the cluster; time_s : Unix seconds for which the plan was made; cpu, memory :
    share requested over all nodes; currency : of the prices, "" = not told; waiting : pods that have no node yet;
    sentences : what matters most.
    """

    name: str
    time_s: float
    summary: plan_pb2.PlanSummary
    currency: str
    cpu: float
    memory: float
    waiting: int
    sentences: tuple[str, ...]
    groups: tuple[GroupLine, ...]
    nodes: tuple[NodeLine, ...]
    pending: tuple[PendingLine, ...]
    removals: tuple[RemovalLine, ...]
    growth: tuple[GrowthLine, ...]


Json = dict[str, Any]


def screen_document(screen: ClusterScreen) -> Json:
    """Return what the page shows. Shares in per cent; a price that is not known is null. O(nodes)."""
    texts: dict[str, int] = {}

    def index(text: str) -> int:
        return texts.setdefault(text, len(texts))

    summary = screen.summary
    nodes = [
        [
            one.name,
            index(one.group),
            _percent(one.cpu),
            _percent(one.memory),
            one.pods,
            _price(one.price),
            index(one.state.value),
            index(one.verdict),
        ]
        for one in screen.nodes
    ]
    return {
        "name": screen.name,
        "time": screen.time_s,
        "figures": {
            "nodes": summary.now.node_count,
            "removed": summary.removed_node_count,
            "added": summary.added_node_count,
            "perMonth": round(summary.now.price_per_month, 2),
            "perMonthAfter": round(summary.after.price_per_month, 2),
            "withoutPrice": summary.now.unpriced_node_count,
            "assumption": assumption_of(summary),
            "currency": screen.currency,
        },
        "cpu": _percent(screen.cpu),
        "memory": _percent(screen.memory),
        "waiting": screen.waiting,
        "sentences": list(screen.sentences),
        "groups": [[*one[:6], _percent(one.cpu), _percent(one.memory), _price(one.price)] for one in screen.groups],
        "nodes": nodes,
        "texts": list(texts),
        "pending": [[len(one.pods), one.owner, one.reason, one.is_served] for one in screen.pending],
        "removals": [
            [*one[:3], round(one.seconds), *(one[4:6] if one.is_drain else (None, None)), one.is_over, one.detail]
            for one in screen.removals
        ],
        "growth": [[*one[:5], _price(one.price), one.reason] for one in screen.growth],
    }


def _percent(share: float) -> int:
    return round(100 * share)


def _price(price: float | None) -> float | None:
    return None if price is None else round(price, 4)
