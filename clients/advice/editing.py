"""Edits as the planner takes them: changed settings, and the difference to a snapshot that it has."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from google.protobuf import json_format

from trimtab.clients.advice.changes import Edit, Keys, PodChange, RequestChange, SpecChange
from trimtab.clients.json_form import json_form
from trimtab.common.deltas.writing import DeltaWriter
from trimtab.common.kubernetes.signals.karpenter import DO_NOT_DISRUPT
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

LARGEST_WEIGHT: Final = 100


class SnapshotEditor:
    """Makes the deltas of edits to one snapshot, which must not change. O(P) once, then O(changed rows).

    Errors: ValueError, IndexError for a snapshot that breaks its contract.
    """

    def __init__(self, snapshot: pb.ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._node_rows = {node.name: row for row, node in enumerate(snapshot.nodes)}
        self._group_rows = {group.id: row for row, group in enumerate(snapshot.node_groups)}

    def delta(self, edit: Edit) -> pb.SnapshotDelta:
        """Return the difference that an edit makes; an empty one if it changes settings only."""
        delta = pb.SnapshotDelta()
        if not (edit.budgets or edit.groups or edit.pods or edit.nodes or edit.unhealthy):
            return delta
        delta.changed.resources.extend(self._snapshot.resources)
        writer = DeltaWriter(self._snapshot, delta.changed)
        changed = {row: most for row, most in edit.budgets.items() if most is not None}
        budgets = list(dict.fromkeys((*changed, *sorted(edit.unhealthy.difference(edit.budgets)))))
        writer.add_rows("pod_disruption_budgets", budgets)
        writer.add_rows("node_groups", [self._group_rows[name] for name in edit.groups])
        writer.add_rows("nodes", [self._node_rows[name] for name in sorted(edit.nodes)])
        rows = sorted(edit.pods)
        if rows:
            writer.add_pods(np.array(rows, np.int64))
        writer.finish()
        for row, budget in zip(budgets, delta.changed.pod_disruption_budgets, strict=True):
            if row in changed:
                allow_unavailable(budget, changed[row])
            budget.always_allow_unhealthy |= row in edit.unhealthy
        for group, minimum in zip(delta.changed.node_groups, edit.groups.values(), strict=True):
            group.min_size = minimum
        for node in delta.changed.nodes:
            node.scale_down_disabled = node.do_not_disrupt = False
        if rows:
            _change_specs(delta.changed, [edit.pods[row] for row in rows])
            _let_be_disrupted(delta.changed, [SpecChange.DISRUPTABLE in edit.pods[row] for row in rows])
        for row, limit in edit.budgets.items():
            if limit is None:
                budget = self._snapshot.pod_disruption_budgets[row]
                delta.deleted_pod_disruption_budgets.append(f"{budget.namespace}/{budget.name}")
        return delta


def allow_unavailable(budget: pb.PodDisruptionBudget, most: int) -> None:
    """Let so many pods of a budget be unavailable, in place; its status becomes what the disruption controller would
    make of that. Source: Kubernetes, pkg/controller/disruption.
    """
    budget.min_available, budget.max_unavailable = "", f"{most}"
    status = budget.status
    status.sync_error = ""
    status.desired_healthy = max(status.expected_pods - most, 0)
    status.disruptions_allowed = max(status.current_healthy - status.desired_healthy, 0)


def edited_settings(settings: plan_pb2.PlanSettings, values: Mapping[Keys, Any]) -> plan_pb2.PlanSettings:
    """Return a copy of settings with other values at some paths of the JSON form."""
    if not values:
        return settings
    document = json_form(settings)
    for keys, value in values.items():
        place: Any = document
        for key in keys[:-1]:
            place = place[key] if isinstance(key, int) else place.setdefault(key, {})
        place[keys[-1]] = value
    return json_format.ParseDict(document, plan_pb2.PlanSettings())


def _change_specs(changed: pb.ClusterSnapshot, changes: list[frozenset[PodChange]]) -> None:
    """Change the specs of all pods of a delta, in place. changes : by row of its pod table."""
    before = np.frombuffer(changed.pods.spec, "<i4").tolist()
    known: dict[tuple[int, frozenset[PodChange]], int] = {}
    after = []
    for spec, wanted in zip(before, changes, strict=True):
        if (spec, wanted) not in known:
            known[spec, wanted] = len(changed.pod_specs)
            changed.pod_specs.add().CopyFrom(changed.pod_specs[spec])
            _change_spec(changed.pod_specs[-1], wanted)
            _change_requests(changed, changed.pod_specs[-1], wanted)
        after.append(known[spec, wanted])
    changed.pods.spec = np.array(after, "<i4").tobytes()


def _let_be_disrupted(changed: pb.ClusterSnapshot, wanted: list[bool]) -> None:
    """End the annotations against disruption of some pods of a delta, in place: they hold until 1970. wanted : by row
    of its pod table."""
    if not any(wanted):
        return
    key = np.frombuffer(changed.pods.number_key, "<i4")
    number = np.frombuffer(changed.pods.number, "<f8").copy()
    mine = np.array([changed.strings[at] == DO_NOT_DISRUPT.key for at in key.tolist()], bool)
    number[mine & np.array(wanted, bool)[np.frombuffer(changed.pods.number_pod, "<i4")]] = 0.0
    changed.pods.number = number.tobytes()


def _change_spec(spec: pb.PodSpec, changes: frozenset[PodChange]) -> None:
    """Change one spec in place."""
    if SpecChange.EVICTABLE in changes:
        spec.safe_to_evict = pb.SafeToEvict.TRUE
    if SpecChange.PREFERRED_ANTI_AFFINITY in changes:
        for term in spec.pod_anti_affinity:
            spec.preferred_pod_anti_affinity.add(weight=LARGEST_WEIGHT).term.CopyFrom(term)
        spec.ClearField("pod_anti_affinity")
    if SpecChange.SOFT_SPREAD in changes:
        spec.ClearField("topology_spread")
    if SpecChange.TAINTED_DOMAINS_LEFT_OUT in changes:
        for constraint in spec.topology_spread:
            constraint.honor_node_taints = True


def _change_requests(changed: pb.ClusterSnapshot, spec: pb.PodSpec, changes: frozenset[PodChange]) -> None:
    """Change the requests of one spec of a delta in place; those of other resources stay."""
    wanted = {change.resource: change.amount for change in changes if isinstance(change, RequestChange)}
    for entry in spec.requests:
        entry.amount = wanted.get(changed.resources[entry.resource], entry.amount)
