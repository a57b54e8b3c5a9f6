"""A stand-in for Kueue's provisioning controller, following its field contract on a real API server.

For a workload it creates one PodTemplate a pod set, then a ProvisioningRequest `<workload>-<check>-<attempt>`; once
that is provisioned, the pods start with the annotations that consume it; if it fails or its booking expires before
that, it tries again with the next attempt, up to a limit; if capacity is revoked, the workload is rejected.
Source: kubernetes-sigs/kueue, pkg/controller/admissionchecks/provisioning (names, annotations, outcomes); own.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.actuator_process import apply
from tests.e2e.control_plane.control_plane import ControlPlane

Json = dict[str, Any]
MOST_ATTEMPTS = 3
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS = "autoscaling.x-k8s.io/provisioning-class-name"
PENDING, READY, REJECTED = "Pending", "Ready", "Rejected"


@dataclass
class QueuedWorkload:
    """A workload that waits for its admission check. `sets` : pod template and number of pods, by name of the set."""

    plane: ControlPlane
    name: str
    class_name: str
    sets: dict[str, tuple[Json, int]]
    parameters: dict[str, str] = field(default_factory=dict)
    attempt: int = 0
    state: str = PENDING

    @property
    def request(self) -> str:
        """Return the name of the current request."""
        return f"{self.name}-check-{self.attempt}"

    def submit(self) -> None:
        """Create the templates, then the request."""
        self.attempt += 1
        templates, sets = [], []
        for name, (template, count) in self.sets.items():
            made = f"ppt-{self.request}-{name}"
            templates.append(
                {
                    "apiVersion": "v1",
                    "kind": "PodTemplate",
                    "metadata": {"name": made, "namespace": "default"},
                    "template": template,
                }
            )
            sets.append({"podTemplateRef": {"name": made}, "count": count})
        spec: Json = {"provisioningClassName": self.class_name, "podSets": sets}
        if self.parameters:
            spec["parameters"] = self.parameters
        apply(self.plane, *templates)
        apply(
            self.plane,
            {
                "apiVersion": "autoscaling.x-k8s.io/v1",
                "kind": "ProvisioningRequest",
                "metadata": {"name": self.request, "namespace": "default"},
                "spec": spec,
            },
        )

    def object(self) -> Json:
        """Return the current request as the API server has it."""
        found: Json = json.loads(
            self.plane.kubectl("get", "-n", "default", "provreq", self.request, "-o", "json", "--show-managed-fields")
        )
        return found

    def conditions(self) -> dict[str, tuple[str, str]]:
        """Return status and reason of each condition."""
        found = self.object().get("status", {}).get("conditions", ())
        return {one["type"]: (one["status"], one["reason"]) for one in found}

    def reconcile(self) -> str:
        """Act on the conditions as the queue's controller does; return the state of the check."""
        true = {kind for kind, (status, _) in self.conditions().items() if status == "True"}
        if "CapacityRevoked" in true:
            self.state = REJECTED
        elif self.state == PENDING and (true & {"Failed", "BookingExpired"}):
            if self.attempt >= MOST_ATTEMPTS:
                self.state = REJECTED
            else:
                self.submit()
        elif self.state == PENDING and "Provisioned" in true:
            self.state = READY
            self.start()
        return self.state

    def start(self) -> None:
        """Create the pods, with the annotations by which they consume the request."""
        pods = []
        for name, (template, count) in self.sets.items():
            for number in range(count):
                annotations = {CONSUMES: self.request, CLASS: self.class_name}
                metadata = {**template["metadata"], "name": f"{self.name}-{name}-{number}", "namespace": "default"}
                pods.append(
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "metadata": {**metadata, "annotations": annotations},
                        "spec": template["spec"],
                    }
                )
        apply(self.plane, *pods)
