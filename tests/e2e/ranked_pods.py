"""Pods of an app that are ranked on a real control plane: settings, who is there, scaling."""

import json
from typing import Any

from tests.e2e.actuator_process import until
from tests.e2e.control_plane.control_plane import ControlPlane
from trimtab.v1 import plan_pb2

Json = dict[str, Any]
S = plan_pb2.PodCostStrategy
SLOW_S = 120.0


def targets(app: str, *terms: plan_pb2.PodCostTerm) -> plan_pb2.PlanSettings:
    """Settings that rank the pods of one app."""
    settings = plan_pb2.PlanSettings()
    target = settings.pod_costs.targets.add(strategies=terms)
    target.selector.match_labels["app"] = app
    return settings


def pods_of(plane: ControlPlane, app: str) -> list[Json]:
    """Pods of an app that are not being deleted."""
    found = json.loads(plane.kubectl("get", "pods", "-n", "default", "-l", f"app={app}", "-o", "json"))["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def scale(plane: ControlPlane, app: str, replicas: int) -> None:
    """Scale a Deployment, and wait until the controller has removed the pods."""
    plane.kubectl("scale", "-n", "default", f"deployment/{app}", f"--replicas={replicas}")
    until(lambda: len(pods_of(plane, app)) == replicas, SLOW_S, f"{app} has {replicas} pods")
