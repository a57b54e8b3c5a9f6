"""Instructions: what is to be done next. The tracker's only output, carried out by the runner.

Each may be carried out twice (after a crash), so each must be idempotent.
"""

import msgspec

from actuator.tracker.states import Growth, PodRef


class Instruction(msgspec.Struct, frozen=True):
    """Something to do."""


class WriteTaints(Instruction, frozen=True):
    """Taint all `nodes` of a request. Report `SetTainted`, or `SetFailed` at the first that fails for good."""

    request_id: str
    nodes: tuple[str, ...]


class CheckEmpty(Instruction, frozen=True):
    """Make sure that a node without drain has no pod to move. Report `NodeEmpty` or `DeletionFailed`."""

    node: str


class Drain(Instruction, frozen=True):
    """Drain a node until `deadline_ms` (0 = `timeout_s` from the start of the drain).

    `pods` and `evicted` are what an earlier run wrote down. Report `DrainStarted` before the first eviction, then
    `PodsEvicted`, `DrainProgressed` and `Drained` or `DeletionFailed`.
    """

    node: str
    timeout_s: float
    deadline_ms: int = 0
    planned_uids: tuple[str, ...] | None = None
    pods: tuple[PodRef, ...] = ()
    evicted: frozenset[str] = frozenset()


class BeginDelete(Instruction, frozen=True):
    """Report `DeleteBegun` as soon as the delay after the taint is over."""

    node: str


class DeleteInstance(Instruction, frozen=True):
    """Ask the cloud to delete the instance. Report `DeleteAccepted`, then `InstanceGone` or `DeletionFailed`."""

    node: str
    node_group: str


class RollBack(Instruction, frozen=True):
    """Stop all work on the node, take its taint back, report `RolledBack`.

    `pods` and `evicted` are what the drain wrote down, when not all of it is settled: an eviction that was granted
    unseen is reported by `PodsEvicted` before.
    """

    node: str
    pods: tuple[PodRef, ...] = ()
    evicted: frozenset[str] = frozenset()


class Grow(Instruction, frozen=True):
    """Ask the cloud to grow node groups; `request_id` keeps it from doing so twice. Report `GrowthAnswered`."""

    request_id: str
    growths: tuple[Growth, ...]
