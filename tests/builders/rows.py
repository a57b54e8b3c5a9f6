"""Nodes and pods as plain rows: the input of naive twins, of the snapshots of `tests.builders.columns`, and of the
messages of `tests.builders.snapshots`.
"""

from typing import NamedTuple

from google.protobuf.duration_pb2 import Duration

from trimtab.planner.model.values import MountedVolume, NodeTraits, PodRequirements, TaintSpec
from trimtab.planner.snapshot.columns import FLAG_GATED
from trimtab.v1.snapshot_pb2 import PodPhase

Labels = dict[str, str]


class NodeRow(NamedTuple):
    """A node, or the template of one, in which only labels, taints, amounts and the other traits count.

    Amounts are by resource name, cpu in milli-cores; `capacity` {} = the same as `allocatable`.
    """

    name: str = "n1"
    labels: Labels = {}  # noqa: RUF012
    allocatable: dict[str, int] = {"cpu": 4000, "memory": 16 << 30, "pods": 110}  # noqa: RUF012
    taints: tuple[TaintSpec, ...] = ()
    unschedulable: bool = False
    attach_limits: tuple[tuple[str, int], ...] = ()
    declared_features: tuple[str, ...] = ()
    volume_drivers: tuple[str, ...] | None = None
    provider_id: str = ""
    capacity: dict[str, int] = {}  # noqa: RUF012
    ready: bool = True
    ready_ns: int = 0
    created_ns: int = 0
    group: str = ""
    scale_down_disabled: bool = False
    deletion_delayed: bool = False
    do_not_disrupt: bool = False
    being_deleted: bool = False
    price: float | None = None

    @property
    def traits(self) -> NodeTraits:
        """The planner's form of limits, features and drivers."""
        return NodeTraits(self.attach_limits, self.declared_features, self.volume_drivers)


class PodRow(NamedTuple):
    """A pod; `node` "" = pending, `pinned`, `nominated` "" = not so, `deletion_s` 0 = not terminating, `uid` "" = one
    that follows from namespace and name.
    """

    name: str = "p1"
    spec: PodRequirements = PodRequirements()
    namespace: str = "default"
    labels: Labels = {}  # noqa: RUF012
    node: str = ""
    pinned: str = ""
    deletion_s: int = 0
    phase: int = PodPhase.RUNNING
    flags: int = 0
    volumes: tuple[MountedVolume, ...] = ()
    created_s: int = 0
    uid: str = ""
    owner: str = ""
    deletion_cost: int = 0
    numbers: tuple[tuple[str, float], ...] = ()
    pod_group: str = ""
    nominated: str = ""

    @property
    def terminating(self) -> bool:
        """Whether its deletion has begun."""
        return self.deletion_s > 0

    @property
    def ended(self) -> bool:
        """Whether all its containers have ended for good."""
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    @property
    def gated(self) -> bool:
        """Whether a scheduling gate holds it back."""
        return bool(self.flags & FLAG_GATED)


def length_of(seconds: int) -> Duration | None:
    """Return a duration; None for -1, which is none."""
    return None if seconds < 0 else Duration(seconds=seconds)
