"""The status ConfigMap: the state of the loop for users of kubectl, in the layout of the Cluster Autoscaler's.

Written after each round in which more than its times has changed, and at least once a minute.
Source: Cluster Autoscaler, clusterstate/api (field names and values of the status).
"""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import yaml

from trimtab.clients.loop.advisory import Advisory
from trimtab.clients.loop.capacity import useless_upcoming
from trimtab.clients.loop.replacing import in_progress, is_over
from trimtab.clients.loop.rounds import RoundResult
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.registry import BY_KIND
from trimtab.common.kubernetes.signals import ours
from trimtab.prices import HOURS_A_MONTH
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2, snapshot_pb2

KEY = "status"
REFRESH_S = 60.0
MOST_PROBLEMS = 20
"""Most problems of slack that are shown: a ConfigMap is small."""
IN_PROGRESS, NO_ACTIVITY, BACKOFF = "InProgress", "NoActivity", "Backoff"


class StatusMap:
    """The ConfigMap NAMESPACE/NAME. `write` raises ApiError, UnreachableError."""

    def __init__(self, api: Api, namespace: str, name: str, advisory: Advisory | None = None) -> None:
        """advisory : of a loop that carries nothing out."""
        self._api, self._namespace, self._name = api, namespace, name
        self._advisory = advisory
        self._last: dict[str, Any] = {}
        self._written_s = 0.0
        self._since: dict[str, tuple[str, str]] = {}

    def write(self, done: RoundResult | None, trouble: str, now_s: float) -> None:
        """Write the status after a round, or the error that fails rounds."""
        now = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        document = self._document(done, trouble, now)
        if document == self._last and 0 <= now_s - self._written_s < REFRESH_S:
            return
        text = yaml.safe_dump({"time": now, **document}, sort_keys=False, allow_unicode=True)
        self._put(text, now)
        self._last, self._written_s = document, now_s

    def _document(self, done: RoundResult | None, trouble: str, now: str) -> dict[str, Any]:
        document: dict[str, Any] = {"autoscalerStatus": "Initializing" if done is None else "Running"}
        if trouble:
            document["message"] = trouble
        if done is None:
            return document
        decision, counts = done.answer.scale_down, done.answer.diagnostics
        candidates = "CandidatesPresent" if decision.unneeded else "NoCandidates"
        status = done.status
        growths = [_growth(one) for one in status.node_groups] if status is not None else []
        growing = IN_PROGRESS if IN_PROGRESS in growths or done.grown else NO_ACTIVITY
        if done.answer.HasField("scale_up"):
            document["waitingPods"] = sum(len(one.pods) for one in done.answer.scale_up.unschedulable)
        document["clusterWide"] = {
            "health": _health(decision) | {"nodeCounts": {"registered": {"total": counts.node_count}}},
            "scaleUp": {"status": growing, "lastTransitionTime": self._transition("scaleUp", growing, now)},
            "scaleDown": {
                "status": candidates,
                "candidates": len(decision.unneeded),
                "lastTransitionTime": self._transition("scaleDown", candidates, now),
                "result": _result(done.answer),
                "inProgress": len(status.deletions) if status is not None else 0,
            },
        }
        cost = _costs(done)
        if cost is not None:
            document["cost"] = cost
        document |= _held_room(done)
        if status is not None and status.replacements:
            document["replacements"] = _replacements(status)
        if self._advisory is not None:
            document["advisory"] = self._advisory.document()
        if status is not None:
            document["nodeGroups"] = [
                {
                    "name": one.id,
                    "health": {
                        "cloudProviderTarget": one.target_size,
                        "minSize": one.min_size,
                        "maxSize": one.max_size,
                        "instances": one.instance_count,
                    },
                    "scaleUp": {"status": growth}
                    | ({"backoffInfo": {"errorMessage": one.health_detail}} if growth == BACKOFF else {}),
                    "scaleDown": {"inProgress": one.deletion_count},
                }
                for one, growth in zip(status.node_groups, growths, strict=True)
            ]
        return document

    def _transition(self, what: str, value: str, now: str) -> str:
        if self._since.get(what, ("", ""))[0] != value:
            self._since[what] = (value, now)
        return self._since[what][1]

    def _put(self, text: str, now: str) -> None:
        fields = {"metadata": {"annotations": {ours.LAST_UPDATED.key: now}}, "data": {KEY: text}}
        self._api.merge_or_create(BY_KIND["ConfigMap"], self._namespace, self._name, fields)


def _costs(done: RoundResult) -> dict[str, Any] | None:
    """Return hourly and monthly costs: now, after the plan with all its waves, and of all unneeded nodes; None = no
    price is known.
    """
    summary = done.answer.summary
    if summary.assumption or summary.now.node_count == summary.now.unpriced_node_count:
        return None
    figures = [decision for decision in summary.decisions if decision.decision == plan_pb2.Decision.SCALE_DOWN]
    saved = sum(figure.saved_per_hour for figure in figures)
    return {
        "perHour": round(summary.now.price_per_hour, 2),
        "perHourAfterPlan": round(summary.after.price_per_hour, 2),
        "perHourUnneeded": round(saved, 2),
        "perMonth": round(summary.now.price_per_month, 2),
        "perMonthAfterPlan": round(summary.after.price_per_month, 2),
        "perMonthUnneeded": round(saved * HOURS_A_MONTH, 2),
        "nodesWithoutPrice": summary.now.unpriced_node_count,
    }


def _held_room(done: RoundResult) -> dict[str, Any]:
    """Return what is told of slack, gangs and ProvisioningRequests, as far as there are any."""
    found = {"slack": _slack(done)} if done.answer.HasField("slack") else {}
    if done.answer.scale_up.gangs:
        found["gangs"] = _gangs(done)
    return found | ({"provisioningRequests": _requests(done)} if done.answer.capacity_requests.requests else {})


def _gangs(done: RoundResult) -> dict[str, Any]:
    """Return how many gangs with waiting pods can start whole, how many cannot for which reason, what the first of
    these lack, and nodes that came, or are to come, for nothing."""
    gangs = done.answer.scale_up.gangs
    lacking = [one for one in gangs if one.reason]
    reasons = Counter(reason_pb2.GangReason.Code.Name(one.reason) for one in lacking)
    found: dict[str, Any] = {"canStartWhole": len(gangs) - len(lacking), "lacking": dict(sorted(reasons.items()))}
    if lacking:
        found["problems"] = [f"{one.group}: {one.detail}" for one in lacking[:MOST_PROBLEMS]]
    nodes = sorted({node for one in gangs for node in one.release.nodes})
    if nodes:
        found["uselessNodes"] = nodes
    upcoming = useless_upcoming(done.answer)
    if upcoming:
        found["uselessUpcoming"] = dict(sorted(upcoming.items()))
    return found


def _slack(done: RoundResult) -> dict[str, Any]:
    """Return the requested and the existing room, by resource in its unit, and the problems."""
    slack = done.answer.slack
    found: dict[str, Any] = {
        "result": reason_pb2.SlackResult.Code.Name(slack.result),
        "asked": dict(sorted(slack.desired.items())),
        "present": dict(sorted(slack.present.items())),
        "placeholders": len(slack.placeholders),
        "waiting": sum(not placeholder.node for placeholder in slack.placeholders),
    }
    if slack.problems:
        found["problems"] = list(slack.problems[:MOST_PROBLEMS])
    if "CapacityBuffer" in done.absent:
        found["capacityBuffers"] = "not read: the API server does not know CapacityBuffer"
    return found


def _requests(done: RoundResult) -> dict[str, Any]:
    """Return how many ProvisioningRequests have which outcome, and what the first ones lack."""
    decision = done.answer.capacity_requests
    outcomes = Counter(plan_pb2.CapacityRequestOutcome.Code.Name(one.outcome) for one in decision.requests)
    lacking = [f"{one.namespace}/{one.name}: {one.detail}" for one in decision.requests if not one.booked_count]
    found: dict[str, Any] = {"outcomes": dict(sorted(outcomes.items()))}
    if lacking:
        found["problems"] = lacking[:MOST_PROBLEMS]
    if decision.release.nodes:
        found["givenBack"] = list(decision.release.nodes)
    if decision.release.upcoming:
        found["givenBackUpcoming"] = dict(sorted(decision.release.upcoming.items()))
    return found


def _replacements(status: actuator_pb2.ActuatorStatus) -> dict[str, Any]:
    """Return the replacement in progress, how many ended recently, and the last of these."""
    ended = sorted(filter(is_over, status.replacements), key=lambda one: one.stage_time.ToNanoseconds())
    found: dict[str, Any] = {"recentlyEnded": len(ended)}
    for key, one in [*(("inProgress", one) for one in in_progress(status)), *(("last", one) for one in ended[-1:])]:
        found[key] = {
            "stage": actuator_pb2.ReplacementStage.Code.Name(one.stage),
            "newNodes": {
                actuator_pb2.ReplacementNewNodeState.Code.Name(state): count
                for state, count in sorted(Counter(node.state for node in one.new_nodes).items())
            },
            "leaving": [node.node for node in one.leaving],
            "plannedSavingPerHour": round(one.planned_saving_per_hour, 4),
        }
        if one.HasField("achieved_saving_per_hour"):
            found[key]["achievedSavingPerHour"] = round(one.achieved_saving_per_hour, 4)
        if one.reason:
            found[key]["reason"] = reason_pb2.ReplacementReason.Code.Name(one.reason)
            found[key]["message"] = one.detail
    return found


def _health(decision: plan_pb2.ScaleDownDecision) -> dict[str, Any]:
    """Return whether few enough nodes are unready to allow scale-down."""
    if decision.result == reason_pb2.ScaleDownResult.SCALE_DOWN_CLUSTER_UNHEALTHY:
        return {"status": "Unhealthy", "message": decision.detail}
    return {"status": "Healthy"}


def _growth(group: actuator_pb2.NodeGroupStatus) -> str:
    """Return the status of a group's growth."""
    if group.health == snapshot_pb2.NodeGroupHealth.BACKED_OFF:
        return BACKOFF
    return IN_PROGRESS if group.target_size > group.instance_count else NO_ACTIVITY


def _result(answer: plan_pb2.PlanResponse) -> str:
    return str(reason_pb2.ScaleDownResult.Code.Name(answer.scale_down.result))
