"""Clusters to be advised on: with their settings, plans and advice."""

import copy
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from trimtab.clients.advice.advise import AdviceOptions, advise
from trimtab.clients.advice.levers.lever import BasePlan, Lever
from trimtab.clients.advice.result import Advice, AdviceReport
from trimtab.clients.cli.decisions import default_decisions
from trimtab.clients.cli.documents import settings_of
from trimtab.clients.cluster_generator import ClusterShape, generate, objects
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.planner_client import PlannerClient
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.v1 import plan_pb2, snapshot_pb2

Json = dict[str, Any]


@dataclass(frozen=True)
class AdvisedCase:
    """A cluster as objects, and settings as JSON."""

    objects: list[Json]
    settings: Json = field(default_factory=dict)

    def snapshot(self) -> snapshot_pb2.ClusterSnapshot:
        """Return the cluster as the planner reads it."""
        return build_snapshot(decode_objects(self.objects)).snapshot

    def request(self, snapshot: snapshot_pb2.ClusterSnapshot) -> plan_pb2.PlanRequest:
        """Return the request of `trimtab plan` for it."""
        request = plan_pb2.PlanRequest(settings=settings_of(self.settings))
        request.now.FromJsonString("2026-06-01T00:00:00Z")
        request.decisions.extend(default_decisions(request.settings, snapshot))
        return request

    def plan(self, planner: PlannerClient) -> plan_pb2.PlanResponse:
        """Return its plan, made from the whole cluster."""
        snapshot = self.snapshot()
        return planner.plan(snapshot, self.request(snapshot))

    def advice(
        self,
        planner: PlannerClient,
        most_plans: int = 300,
        more: Callable[[BasePlan], Iterable[Lever]] | None = None,
    ) -> AdviceReport:
        """Return the advice on its plan."""
        snapshot = self.snapshot()
        request, view = self.request(snapshot), ClusterView(snapshot)
        answer = planner.plan(snapshot, request)
        return advise(planner, view, request, answer, AdviceOptions(most_plans, more))


def generated(seed: int) -> AdvisedCase:
    """Return a synthetic cluster with many kinds of blockers. Same seed, same cluster."""
    drawn = random.Random(seed)
    nodes = drawn.randint(12, 40)
    shape = ClusterShape(
        nodes=nodes,
        pods=nodes * drawn.randint(6, 20),
        utilization=drawn.choice((0.1, 0.2, 0.4)),
        seed=seed,
        spread_share=drawn.choice((0.0, 0.0, 0.5)),
        anti_affinity_share=drawn.choice((0.0, 0.4, 0.9)),
        budget_share=drawn.choice((0.1, 0.5, 0.9)),
        unmovable_share=drawn.choice((0.0, 0.1, 0.3)),
        pending_pods=drawn.choice((0, 0, 0, 10)),
    )
    cluster: list[Json] = msgspec.json.decode(msgspec.json.encode(list(objects(generate(shape)))))
    twins: list[Json] = []
    for one in cluster:
        if one["kind"] == "NodeGroup" and drawn.random() < 0.5:
            one["spec"]["minSize"] = 0
        elif one["kind"] == "NodeGroup" and drawn.random() < 0.3:
            one["spec"]["minSize"] = one["spec"]["targetSize"]
        if one["kind"] == "PodDisruptionBudget" and drawn.random() < 0.1:
            twin = copy.deepcopy(one)
            twin["metadata"]["name"] += "-twin"
            twins.append(twin)
        if one["kind"] == "Node" and drawn.random() < 0.05:
            disabled = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
            one["metadata"].setdefault("annotations", {}).update(disabled)
    settings: Json = drawn.choice(
        (
            {},
            {"scaleDown": {"utilizationThreshold": 0.8}},
            {"scaleDown": {"utilizationThreshold": 1.0}},
            {"scaleDown": {"skipNodesWithLocalStorage": False, "utilizationThreshold": 0.4}},
            {"scaleDown": {"savingBeforeCount": True, "minReplicaCount": 2, "jobPodsUnmovable": True}},
            {"planner": {"limits": [{"resource": "nodes", "minimum": str(nodes - 4)}]}},
        )
    )
    return AdvisedCase([*cluster, *twins], settings)


def promises(report: AdviceReport) -> list[Advice]:
    """Return all advice, with every other value of each line, and the joint one."""
    steps = [step for one in report.advice for step in one.steps]
    return [*report.advice, *steps, *([report.together] if report.together else [])]
