"""ProvisioningRequests and their PodTemplates, and plans for them, verified by the certificate."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from google.protobuf.json_format import ParseDict

from tests.builders.capacity_buffers import template
from tests.builders.kubernetes import Json, snapshot_of
from tests.certificates.capacity_requests import offences
from trimtab.planner.decisions.plan import plan as take_decisions
from trimtab.planner.device_amounts.planned import planned_snapshot
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2, snapshot_pb2

CHECK = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"
NOW_S = 1_800_000_000
"""A time long after all times that builders use."""
CREATED = "2027-01-15T07:59:00Z"
"""A minute before `NOW_S`."""
Code = plan_pb2.Decision.Code.ValueType


def condition(kind: str, status: str = "True", at: str = CREATED, reason: str = "") -> Json:
    """Build a condition."""
    return {"type": kind, "status": status, "lastTransitionTime": at, "reason": reason, "message": ""}


def request(
    name: str,
    *sets: tuple[str, int],
    class_name: str = ATOMIC,
    namespace: str = "default",
    created: str = CREATED,
    parameters: Mapping[str, str] | None = None,
    conditions: Sequence[Json] = (),
) -> Json:
    """Build a ProvisioningRequest; `sets` : name of a PodTemplate, and number of pods."""
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": created},
        "spec": {
            "provisioningClassName": class_name,
            "podSets": [{"podTemplateRef": {"name": of}, "count": count} for of, count in sets],
            **({"parameters": dict(parameters)} if parameters else {}),
        },
        "status": {"conditions": list(conditions)},
    }


def pod_template(name: str, cpu: str = "1", memory: str = "1Gi", namespace: str = "default", **spec: Any) -> Json:
    """Build a PodTemplate with one container; spec : further fields of the pod's spec, `requests` more resources."""
    wanted = {"cpu": cpu, "memory": memory, **spec.pop("requests", {})}
    labels = spec.pop("labels", {})
    container = {"name": "c", "image": "i", "resources": {"requests": wanted}}
    return template(name, namespace, {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}})


class CapacityOutcomes(NamedTuple):
    """A decision as plain names."""

    decision: plan_pb2.CapacityRequestsDecision
    answer: plan_pb2.PlanResponse
    snapshot: snapshot_pb2.ClusterSnapshot

    @property
    def outcomes(self) -> dict[str, str]:
        """Return the outcome by request."""
        return {one.name: plan_pb2.CapacityRequestOutcome.Code.Name(one.outcome) for one in self.decision.requests}

    @property
    def growth(self) -> dict[str, int]:
        """Return the number of new nodes by group."""
        return {split.node_group: split.new_size - split.current_size for split in self.decision.splits}

    def of(self, name: str) -> plan_pb2.CapacityRequestAnswer:
        """Return the answer to a request."""
        (one,) = [one for one in self.decision.requests if one.name == name]
        return one


def plan_requests(
    *objects: Json | Sequence[Json],
    settings: Json | None = None,
    state: plan_pb2.PlanState | None = None,
    now_s: int = NOW_S,
    decisions: Sequence[Code] = (plan_pb2.Decision.CAPACITY_REQUESTS,),
) -> CapacityOutcomes:
    """Decide on Kubernetes objects; settings : of the whole plan, as JSON. Verifies the plan."""
    message = snapshot_of(*objects)
    given = ParseDict(settings or {}, plan_pb2.PlanSettings())
    asked = plan_pb2.PlanRequest(decisions=decisions, settings=given)
    asked.now.seconds = now_s
    answer = take_decisions(planned_snapshot(canonicalize(message)).snapshot, asked, state, Work())
    assert offences(message, given, answer.capacity_requests, now_s) == []
    return CapacityOutcomes(answer.capacity_requests, answer, message)
