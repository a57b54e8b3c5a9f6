"""One blocker that can be lifted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trimtab.clients.advice.changes import AdvisedChange, Edit
from trimtab.clients.advice.counterfactuals import Outcome
from trimtab.clients.advice.result import Blocker
from trimtab.clients.advice.workloads import PodWorkloads
from trimtab.clients.cluster_view import ClusterView, ShownPod
from trimtab.clients.verdicts import staying
from trimtab.v1 import plan_pb2


@dataclass(frozen=True)
class Lever:
    """A change that lifts a blocker. condition : the change as a clause that follows "if"; kept : nodes that the
    blocker keeps, perhaps with others; whole : it lifts all blockers of its kind; smaller : returns smaller
    changes that may free what a plan with this one frees, the smallest first; steps : other values of the same line, in
    order.
    """

    kind: Blocker
    condition: str
    edit: Edit
    changes: tuple[AdvisedChange, ...]
    kept: frozenset[str]
    whole: bool = False
    smaller: Callable[[Outcome], "tuple[Lever, ...]"] | None = None
    steps: "tuple[Lever, ...]" = field(default=())


class BlockedPod(NamedTuple):
    """A pod that must not be evicted, its node, and every reason as `BlockingPodReason.Code`. alone : no other rule
    than those about pods keeps its node.
    """

    pod: ShownPod
    node: str
    reasons: tuple[int, ...]
    alone: bool


@dataclass(frozen=True)
class BasePlan:
    """The base plan, as levers are looked for in it. answer : with the blocking pods of the nodes that stay."""

    view: ClusterView
    workloads: PodWorkloads
    settings: plan_pb2.PlanSettings
    answer: plan_pb2.PlanResponse
    blocked: Sequence[BlockedPod]

    def staying(self, reason: int) -> list[plan_pb2.NodeVerdict]:
        """Return the nodes that stay for an `UnremovableReason.Code`."""
        return [one for one in staying(self.answer) if one.reason == reason]

    def blocked_by(self, *reasons: int) -> list[BlockedPod]:
        """Return the pods that must not be evicted for one of some `BlockingPodReason.Code`s."""
        wanted = set(reasons)
        return [one for one in self.blocked if wanted & set(one.reasons)]


def joined(
    kind: Blocker,
    condition: str,
    levers: Sequence[Lever],
    smaller: Callable[[Outcome], tuple[Lever, ...]] | None = None,
) -> Lever:
    """Return the lever that lifts all blockers of a kind. smaller : see `Lever`."""
    edit = Edit()
    for lever in levers:
        edit = edit.with_other(lever.edit)
    changes = dict.fromkeys(change for lever in levers for change in lever.changes)
    kept = frozenset(node for lever in levers for node in lever.kept)
    return Lever(kind, condition, edit, tuple(changes), kept, whole=True, smaller=smaller)
