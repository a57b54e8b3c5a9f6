"""The input of each cluster's last plan: sizes, prices and health of its node groups, and its settings. The Cluster
Autoscaler sends none of these. Decides which cluster a request is about: the named one, else the only one that has its
node groups. Only this process has these data, and they are lost when it ends. Thread-safe.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from trimtab.planner.model.values import NodeGroupInfo
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.v1 import plan_pb2

MOST_CLUSTERS: Final = 64
MAX_AGE_S: Final = 600.0
"""Age up to which sizes and health are used; prices and settings are used for longer."""


@dataclass(frozen=True)
class LastPlan:
    """The input of a plan. made_s : when it was made, monotonic seconds."""

    cluster: str
    settings: plan_pb2.PlanSettings
    groups: tuple[NodeGroupInfo, ...]
    node_count: int
    snapshot_version: str
    made_s: float

    @property
    def is_recent(self) -> bool:
        """Whether sizes and health may be used."""
        return time.monotonic() - self.made_s <= MAX_AGE_S


class ClusterPlan(NamedTuple):
    """The plan of the cluster that a request is about, None = not known; note : why it is not known, "" = it is."""

    plan: LastPlan | None
    note: str = ""


class LastPlans:
    """The last plan of each cluster, of the clusters planned for most recently."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: OrderedDict[str, LastPlan] = OrderedDict()

    def remember(self, request: plan_pb2.PlanRequest, snapshot: Snapshot) -> None:
        """Keep the input of a plan."""
        settings = plan_pb2.PlanSettings()
        settings.CopyFrom(request.settings)
        plan = LastPlan(
            request.cluster,
            settings,
            tuple(snapshot.groups),
            len(snapshot.nodes.name),
            snapshot.version,
            time.monotonic(),
        )
        with self._lock:
            self._plans[request.cluster] = plan
            self._plans.move_to_end(request.cluster)
            while len(self._plans) > MOST_CLUSTERS:
                self._plans.popitem(last=False)

    def find(self, cluster: str, node_groups: Iterable[str]) -> ClusterPlan:
        """Return the last plan of a cluster; cluster "" = the only cluster that has any of the node groups."""
        with self._lock:
            plans = dict(self._plans)
        if cluster:
            named = plans.get(cluster)
            return ClusterPlan(named, "" if named else f"no plan was made for cluster {cluster!r}")
        wanted = set(node_groups)
        having = [plan for plan in plans.values() if any(group.id in wanted for group in plan.groups)]
        if len(having) == 1:
            return ClusterPlan(having[0])
        if having:
            names = ", ".join(sorted(repr(plan.cluster) for plan in having))
            return ClusterPlan(None, f"{names} all have these node groups, name one (--expander-cluster)")
        return ClusterPlan(None, "no plan was made for a cluster with these node groups")
