"""Nodes and pods as plain rows: the input of naive twins, and of the snapshots of `tests.builders.columns`."""

from typing import NamedTuple

from trimtab.planner.model.values import MountedVolume, NodeTraits, PodRequirements, TaintSpec

Labels = dict[str, str]


class NodeRow(NamedTuple):
    """A node; `allocatable` by resource name, cpu in milli-cores."""

    name: str = "n1"
    labels: Labels = {}  # noqa: RUF012
    allocatable: dict[str, int] = {"cpu": 4000, "memory": 16 << 30, "pods": 110}  # noqa: RUF012
    taints: tuple[TaintSpec, ...] = ()
    unschedulable: bool = False
    attach_limits: tuple[tuple[str, int], ...] = ()
    declared_features: tuple[str, ...] = ()
    volume_drivers: tuple[str, ...] | None = None

    @property
    def traits(self) -> NodeTraits:
        """The planner's form of the last fields."""
        return NodeTraits(self.attach_limits, self.declared_features, self.volume_drivers)


class PodRow(NamedTuple):
    """A pod; `node` "" = pending, `pinned` "" = not pinned."""

    name: str = "p1"
    spec: PodRequirements = PodRequirements()
    namespace: str = "default"
    labels: Labels = {}  # noqa: RUF012
    node: str = ""
    pinned: str = ""
    terminating: bool = False
    ended: bool = False
    gated: bool = False
    volumes: tuple[MountedVolume, ...] = ()
    created_s: int = 0
    daemon: bool = False
