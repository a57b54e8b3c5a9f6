"""Pictures of a small cluster, as the demo checks its evidence with."""

import json
from typing import Any

from tests.builders import kubernetes as k8s
from trimtab.clients.cli.demo.evidence import ClusterPicture, picture


def ready(name: str, node: str, uid: str = "", **more: Any) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}
    built = k8s.pod(name, node=node, labels={"app": "web"})
    built["metadata"]["uid"] = uid or f"uid-{name}"
    built["metadata"]["ownerReferences"] = more.pop("owners", [owner])
    built["metadata"] |= more
    built["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return built


def shot(*items: dict[str, Any]) -> ClusterPicture:
    return picture(json.dumps({"kind": "List", "items": items}).encode())
