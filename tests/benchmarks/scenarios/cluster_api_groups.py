"""The time of the cloud `clusterapi` without the API server: 200 MachineDeployments with 10,000 Machines.

Synthetic: the lists are made once, as JSON of the sizes that Machines have, page by page; each read parses their JSON
anew, as it does with a live API server, and no byte goes over a network.
"""

import json
import time
from functools import partial
from typing import Any

from tests.benchmarks.registry import Stages, scenario

GROUPS, MACHINES, PAGE, CALLS = 200, 50, 500, 200
MIB = 1 << 20
NAMESPACE = "default"


class Answers:
    """An API server as it answers; `count` calls were made."""

    def __init__(self) -> None:
        self.count = 0
        groups = [_deployment(number) for number in range(GROUPS)]
        machines = [_machine(number) for number in range(GROUPS * MACHINES)]
        self._pages = {"machinedeployments": _pages(groups), "machinepools": _pages([]), "machines": _pages(machines)}

    def call(self, call: Any) -> bytes:
        """Answer one call."""
        self.count += 1
        pages = self._pages[call.path.rpartition("/")[2]]
        return pages[int((call.query or {}).get("continue") or 0)]

    def parse(self) -> None:
        """Parse all answers as the cloud does, and do nothing else."""
        # Imported late: other scenarios do without, and their memory is measured.
        from trimtab.common.kubernetes.json_envelope import ObjectList, decode
        from trimtab.common.kubernetes.kinds.cluster_api import Machine

        for plural, pages in self._pages.items():
            for page in pages:
                decode(ObjectList[Machine] if plural == "machines" else ObjectList[dict[str, Any]], page)


class Groups:
    """The cloud over these answers."""

    def __init__(self) -> None:
        # Imported late: other scenarios do without, and their memory is measured.
        from trimtab.actuator.cloud.clusterapi.cloud import ClusterApiCloud
        from trimtab.actuator.kube.api import KubeApi

        self.answers: Any = Answers()
        self.answers.objects = partial(KubeApi.objects, self.answers)
        self.cloud = ClusterApiCloud(self.answers)
        self.names = [f"MachineDeployment/{NAMESPACE}/{_name(number)}" for number in range(GROUPS)]


def run(made: Groups, stages: Stages) -> dict[str, Any]:
    """Read everything once, and look nodes up."""
    cloud = made.cloud
    with stages.stage("refresh"):
        cloud.refresh()
        views = cloud.node_groups()
    with stages.stage("instances"):
        instances = cloud.instances(made.names)
    with stages.stage("json"):
        made.answers.parse()
    with stages.stage("templates"):
        templates = [(cloud.options(name), cloud.template(name)) for name in made.names]
    group_of: dict[str, str] = {}
    begun_s = time.perf_counter()
    # The first of them lists the Machines.
    for at in range(CALLS):
        group_of |= cloud.groups_of([_provider_id(at * (GROUPS * MACHINES // CALLS))])
    stages.add("node to group", (time.perf_counter() - begun_s) / CALLS)
    return {"views": views, "instances": instances, "templates": templates, "group_of": group_of}


def verify(made: Groups, answer: dict[str, Any]) -> None:
    """All groups and Machines, each node's group, and a template of each."""
    assert [one.id for one in answer["views"]] == made.names
    assert {(one.target_size, one.instance_count) for one in answer["views"]} == {(MACHINES, MACHINES)}
    assert sum(len(members) for members in answer["instances"].values()) == GROUPS * MACHINES
    step = GROUPS * MACHINES // CALLS
    assert answer["group_of"] == {_provider_id(at): made.names[at // MACHINES] for at in range(0, CALLS * step, step)}
    assert {template.capacity["cpu"] for _, template in answer["templates"]} == {"8"}


def _name(number: int) -> str:
    return f"group-{number:03}"


def _provider_id(at: int) -> str:
    return f"test:///machine-{at:05}"


def _pages(items: list[dict[str, Any]]) -> list[bytes]:
    pages = [items[at : at + PAGE] for at in range(0, max(1, len(items)), PAGE)]
    return [
        json.dumps(
            {"metadata": {"continue": str(number + 1) if number + 1 < len(pages) else ""}, "items": page}
        ).encode()
        for number, page in enumerate(pages)
    ]


def _deployment(number: int) -> dict[str, Any]:
    limits = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"
    capacity = "capacity.cluster-autoscaler.kubernetes.io/"
    annotations = {
        f"{limits}min-size": "0",
        f"{limits}max-size": "100",
        f"{capacity}cpu": "8",
        f"{capacity}memory": "32Gi",
    }
    metadata = {"name": _name(number), "namespace": NAMESPACE, "resourceVersion": "1", "annotations": annotations}
    return {"kind": "MachineDeployment", "metadata": metadata, "spec": {"replicas": MACHINES}}


def _machine(at: int) -> dict[str, Any]:
    """Return a Machine with the fields that its controllers write."""
    name = f"machine-{at:05}"
    labels = {"cluster.x-k8s.io/deployment-name": _name(at // MACHINES), "cluster.x-k8s.io/cluster-name": "blue"}
    owner = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineSet", "name": _name(at // MACHINES), "uid": "u"}
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("Ready", "BootstrapReady", "HealthCheckSucceeded", "InfrastructureReady", "NodeHealthy")
    ]
    return {
        "kind": "Machine",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{at}",
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": {"clusterName": "blue", "providerID": _provider_id(at), "version": "v1.34.0"},
        "status": {"phase": "Running", "nodeRef": {"kind": "Node", "name": name}, "conditions": conditions},
    }


scenario(
    name="cluster-api-groups-10000",
    what="read 200 MachineDeployments with 10,000 Machines, their templates and options, and look nodes up",
    setup=Groups,
    run=run,
    verify=verify,
    aims={"refresh": 0.2, "node to group": 0.001, "peak": 300 * MIB},
    reference="the stage json is the same lists parsed alone, which refresh and instances include",
)
