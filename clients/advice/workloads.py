"""The workloads of pods: the topmost known controller of each, such as the Deployment of a ReplicaSet's pods."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from trimtab.clients.cluster_view import ClusterView
from trimtab.v1 import snapshot_pb2 as pb

TEMPLATED = {"Deployment": "spec.template", "StatefulSet": "spec.template", "DaemonSet": "spec.template"}
"""Kinds whose controllers replace pods when the template changes."""


class WorkloadName(NamedTuple):
    """A controller by its kind and name."""

    kind: str
    namespace: str
    name: str

    @property
    def object(self) -> str:
        """As "Kind/namespace/name"."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class PodWorkloads:
    """The workloads of pods, and the pods of workloads. O(P) at the first use."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def of(self, row: int) -> WorkloadName | None:
        """Return the workload of a pod, None = no controller of it is known."""
        owner = int(self._owner_column[row])
        return self._by_owner.get(owner)

    def rows(self, workload: WorkloadName) -> list[int]:
        """Return the pods of a workload, by row; () for an unknown one."""
        return self._rows.get(workload, [])

    @property
    def all(self) -> Sequence[WorkloadName]:
        """All workloads with pods, sorted."""
        return sorted(self._rows)

    @cached_property
    def _owner_column(self) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
        pods = self._view.snapshot.pods
        return np.frombuffer(pods.owner, "<i4") if pods.owner else np.zeros(pods.count, np.int32)

    @cached_property
    def _by_owner(self) -> Mapping[int, WorkloadName]:
        """The workloads by string index of the owner's uid."""
        by_uid = {owner.uid: top_of(owner) for owner in self._view.snapshot.owners}
        used = np.unique(self._owner_column).tolist()
        return {index: by_uid[uid] for index in used if index and (uid := self._view.text(index)) in by_uid}

    @cached_property
    def _rows(self) -> Mapping[WorkloadName, list[int]]:
        found: dict[WorkloadName, list[int]] = {}
        for row, owner in enumerate(self._owner_column.tolist()):
            workload = self._by_owner.get(owner)
            if workload is not None:
                found.setdefault(workload, []).append(row)
        return found


def top_of(owner: pb.Owner) -> WorkloadName:
    """Return the controller of a controller, or else the controller itself."""
    parts = owner.controller.split("/")
    if len(parts) == 3 and all(parts):
        return WorkloadName(*parts)
    return WorkloadName(owner.kind, owner.namespace, owner.name)
