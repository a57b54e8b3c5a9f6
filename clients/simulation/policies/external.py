"""An external program as the policy of a simulation: it says which groups grow and which nodes are unneeded.

Decides what a program without memory cannot: since when nodes have been unneeded, cool-downs, and how many nodes may go
at once, by the settings of scale-down (`unneededTime`, `delayAfterAdd`, `delayAfterDelete`, `maxScaleDownParallelism`,
`maxDrainParallelism`; overrides of `unneededTime` by group). Empty nodes go first, then the ones unneeded for longest.
The program is asked again only if anything but the time has changed. Units: seconds, Unix time.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from google.protobuf import json_format

from trimtab.actuator.drain.pods import pods_to_move
from trimtab.actuator.tracker.admission import digest_of
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.node_info import NodeInfo
from trimtab.clients.simulation.cluster.pods import format_time
from trimtab.clients.simulation.policies.line_protocol import PROTOCOL, PolicyAnswer, PolicyProgram
from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.common.kubernetes.names import HARD_TAINT_KEY
from trimtab.v1 import plan_pb2, planner_pb2, reason_pb2

DECISIONS: Final = {"scale-up": plan_pb2.Decision.SCALE_UP, "scale-down": plan_pb2.Decision.SCALE_DOWN}
"""The decisions of an external policy."""
_EXPENDABLE_BELOW: Final = -10
_DEFAULTS: Final = {"unneeded_time": 600.0, "delay_after_add": 600.0, "delay_after_delete": 0.0}
_DRAINS, _REMOVALS = 1, 10
_REASONS: Final = reason_pb2.UnremovableReason.Code.DESCRIPTOR.values_by_name
_Result = reason_pb2.ScaleDownResult


class ExternalPolicy:
    """A `PlannerLink` (see `trimtab.clients.planner_client`) that asks a program. Close it."""

    def __init__(self, name: str, command: Sequence[str], timeout_s: float) -> None:
        """name : of the scenario; command : program and arguments; timeout_s : for each answer."""
        self._name, self._command = name, tuple(command)
        self._program = PolicyProgram(command, timeout_s)
        self._cluster: SimulatedCluster | None = None
        self._answer: PolicyAnswer | None = None
        self._since: dict[str, int] = {}
        self._last_growth_s = self._last_removal_s = float("-inf")
        self._round = 0

    def attach(self, cluster: SimulatedCluster) -> None:
        """Ask about this cluster."""
        self._cluster = cluster

    def info(self) -> planner_pb2.GetPlannerInfoResponse:
        """Return which decisions it makes."""
        return planner_pb2.GetPlannerInfoResponse(decisions=list(DECISIONS.values()))

    def close(self) -> None:
        """End the program."""
        self._program.close()

    def send(self, request: plan_pb2.PlanRequest, payload: bytes) -> plan_pb2.PlanResponse:
        """Answer `Plan`."""
        answer = self._answer
        if payload or answer is None:
            answer = self._answer = self._ask(request)
        self._round += 1
        response = plan_pb2.PlanResponse(request_id=request.request_id, snapshot_version=f"external-{self._round}")
        if plan_pb2.Decision.SCALE_UP in request.decisions:
            response.scale_up.CopyFrom(self._growth(answer, request))
        if plan_pb2.Decision.SCALE_DOWN in request.decisions:
            response.scale_down.CopyFrom(self._removal(answer, request))
            self._add_verdicts(response, answer)
        return response

    def _ask(self, request: plan_pb2.PlanRequest) -> PolicyAnswer:
        assert self._cluster is not None, "attach comes first"
        names = [name for name, code in DECISIONS.items() if code in request.decisions]
        question = {
            "protocol": PROTOCOL,
            "name": self._name,
            "round": self._round,
            "now": format_time(1000 * request.now.seconds),
            "decisions": names,
            "settings": json_format.MessageToDict(request.settings),
            "items": self._cluster.objects(),
        }
        answer = self._program.ask(question)
        state = self._cluster.state
        self._check("scaleUp.groups", answer.groups, state.groups)
        self._check("scaleDown.unneeded", answer.unneeded, state.nodes)
        return answer

    def _check(self, field: str, names: Iterable[str], known: Iterable[str]) -> None:
        unknown = sorted(set(names) - set(known))
        if unknown:
            program = " ".join(self._command)
            raise ScenarioError(f"policy {program}: round {self._round}: {field}: {unknown[0]} does not exist")

    def _growth(self, answer: PolicyAnswer, request: plan_pb2.PlanRequest) -> plan_pb2.ScaleUpDecision:
        """Return the growth that the program wants, within the maximums of the groups."""
        assert self._cluster is not None, "attach comes first"
        decision = plan_pb2.ScaleUpDecision(result=reason_pb2.ScaleUpResult.SCALE_UP_NOT_NEEDED)
        if answer.pending:
            decision.unschedulable.add(pods=sorted(answer.pending))
        for group, count in answer.groups.items():
            spec = self._cluster.state.groups[group]["spec"]
            size, most = spec["targetSize"], spec["maxSize"]
            added = min(count, most - size)
            if added > 0:
                split = decision.splits.add(node_group=group, current_size=size, new_size=size + added, max_size=most)
                if spec.get("price") is not None:
                    split.price_per_hour = added * spec["price"]
        if decision.splits:
            decision.result = reason_pb2.ScaleUpResult.SCALE_UP_NEEDED
            self._last_growth_s = _now_s(request)
            # Requested nodes are in the next question; an answer to this one must not be used twice.
            self._answer = None
        return decision

    def _removal(self, answer: PolicyAnswer, request: plan_pb2.PlanRequest) -> plan_pb2.ScaleDownDecision:
        """Return which unneeded nodes go now."""
        assert self._cluster is not None, "attach comes first"
        state, now_s = self._cluster.state, _now_s(request)
        going = {name for name, info in state.nodes.items() if _has_hard_taint(info)}
        unneeded = [name for name in answer.unneeded if name in state.nodes and name not in going]
        self._since = {name: self._since.get(name, request.now.seconds) for name in unneeded}
        decision = plan_pb2.ScaleDownDecision(evaluated=len(state.nodes), result=_Result.SCALE_DOWN_NO_CANDIDATES)
        for name in unneeded:
            decision.unneeded.append(self._unneeded(name, state.nodes[name], request))
        if not unneeded:
            return decision
        decision.result = _Result.SCALE_DOWN_NO_NODE_DELETED
        if self._is_in_cool_down(request.settings.scale_down, now_s):
            decision.result = _Result.SCALE_DOWN_IN_COOLDOWN
            return decision
        self._choose(decision, answer, request, going)
        return decision

    def _add_verdicts(self, response: plan_pb2.PlanResponse, answer: PolicyAnswer) -> None:
        """Add what becomes of each node."""
        assert self._cluster is not None, "attach comes first"
        decision = response.scale_down
        unneeded, now = {one.node: one for one in decision.unneeded}, {*decision.delete_empty, *decision.drain}
        for name, info in sorted(self._cluster.state.nodes.items()):
            shares = [info.used.get(one, 0) / max(1, info.allocatable.get(one, 0)) for one in ("cpu", "memory")]
            verdict = response.nodes.add(node=name, utilization=max(shares), fate=plan_pb2.NodeFate.STAYS)
            if name in unneeded:
                verdict.fate = plan_pb2.NodeFate.GOES_NOW if name in now else plan_pb2.NodeFate.GOES_LATER
                verdict.wave, verdict.since.seconds = 1, self._since[name]
                continue
            text = answer.unremovable.get(name, "")
            if text in _REASONS:
                verdict.reason = _REASONS[text].number  # type: ignore[assignment]
            else:
                verdict.detail = text

    def _choose(
        self,
        decision: plan_pb2.ScaleDownDecision,
        answer: PolicyAnswer,
        request: plan_pb2.PlanRequest,
        going: set[str],
    ) -> None:
        """Fill in the nodes that go now, within the limits."""
        limits, now_s = request.settings.scale_down, _now_s(request)
        ready = [
            one
            for one in decision.unneeded
            if one.node in answer.removable
            and now_s - self._since[one.node] >= self._unneeded_time_s(one.node, request)
        ]
        room = (limits.max_scale_down_parallelism or _REMOVALS) - len(going)
        drains = (limits.max_drain_parallelism or _DRAINS) - sum(self._drained(name) for name in going)
        for one in sorted(
            ready, key=lambda one: (one.assumption.pods_to_move_count > 0, self._since[one.node], one.node)
        ):
            is_drain = one.assumption.pods_to_move_count > 0
            if room <= 0 or (is_drain and drains <= 0):
                continue
            room, drains = room - 1, drains - is_drain
            (decision.drain if is_drain else decision.delete_empty).append(one.node)
        if decision.drain or decision.delete_empty:
            decision.drain.sort()
            decision.delete_empty.sort()
            decision.result = _Result.SCALE_DOWN_NODE_DELETE_STARTED
            self._last_removal_s = now_s

    def _unneeded(self, name: str, info: NodeInfo, request: plan_pb2.PlanRequest) -> plan_pb2.UnneededNode:
        moved = self._moved(info, request)
        return plan_pb2.UnneededNode(
            node=name,
            assumption=plan_pb2.NodeAssumption(pods_to_move_count=len(moved), pods_to_move_digest=digest_of(moved)),
        )

    def _moved(self, info: NodeInfo, request: plan_pb2.PlanRequest) -> list[str]:
        """Return the uids of the pods that have to be moved from a node."""
        views = [pod.view() for _, pod in sorted(info.pods.items())]
        below = request.settings.planner.expendable_pods_priority_cutoff or _EXPENDABLE_BELOW
        return [pod.uid for pod in pods_to_move(views, request.now.ToMilliseconds(), below)]

    def _drained(self, node: str) -> bool:
        """Return whether a node that is going still has pods to move."""
        assert self._cluster is not None, "attach comes first"
        info = self._cluster.state.nodes[node]
        return any(not pod.stays_with_node and not pod.terminal for pod in info.pods.values())

    def _unneeded_time_s(self, node: str, request: plan_pb2.PlanRequest) -> float:
        assert self._cluster is not None, "attach comes first"
        instance = self._cluster.state.instances.get(node)
        overrides = request.settings.node_groups
        if instance is not None and instance.group in overrides and overrides[instance.group].HasField("unneeded_time"):
            return overrides[instance.group].unneeded_time.ToMilliseconds() / 1000
        return _seconds(request.settings.scale_down, "unneeded_time")

    def _is_in_cool_down(self, settings: plan_pb2.ScaleDownSettings, now_s: float) -> bool:
        since_growth_s, since_removal_s = now_s - self._last_growth_s, now_s - self._last_removal_s
        after_add_s, after_delete_s = _seconds(settings, "delay_after_add"), _seconds(settings, "delay_after_delete")
        return since_growth_s < after_add_s or since_removal_s < after_delete_s


def _seconds(settings: Any, field: str) -> float:
    return getattr(settings, field).ToMilliseconds() / 1000 if settings.HasField(field) else _DEFAULTS[field]


def _now_s(request: plan_pb2.PlanRequest) -> float:
    return request.now.ToMilliseconds() / 1000


def _has_hard_taint(info: NodeInfo) -> bool:
    return any(one.get("key") == HARD_TAINT_KEY for one in (info.node.get("spec") or {}).get("taints") or ())
