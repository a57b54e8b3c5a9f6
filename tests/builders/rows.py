"""Nodes and pods as plain rows: the input of naive twins, and of the snapshots of `tests.builders.columns`."""

from typing import NamedTuple

from trimtab.planner.model.values import PodSpec, Taint, Volume

Labels = dict[str, str]


class NodeRow(NamedTuple):
    """A node; `allocatable` by resource name, cpu in milli-cores."""

    name: str = "n1"
    labels: Labels = {}  # noqa: RUF012
    allocatable: dict[str, int] = {"cpu": 4000, "memory": 16 << 30, "pods": 110}  # noqa: RUF012
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    attach_limits: tuple[tuple[str, int], ...] = ()


class PodRow(NamedTuple):
    """A pod; `node` "" = pending, `pinned` "" = not pinned."""

    name: str = "p1"
    spec: PodSpec = PodSpec()
    namespace: str = "default"
    labels: Labels = {}  # noqa: RUF012
    node: str = ""
    pinned: str = ""
    terminating: bool = False
    ended: bool = False
    gated: bool = False
    volumes: tuple[Volume, ...] = ()
    created_s: int = 0
    daemon: bool = False
