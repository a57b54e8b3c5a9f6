"""Groups of pods in JSON: PodGroups and Workloads of Kubernetes, of Volcano, and pods of them."""

from typing import Any

from tests.builders import kubernetes as k8s

Json = dict[str, Any]
V1ALPHA1, V1ALPHA2, V1BETA1 = (f"scheduling.k8s.io/{version}" for version in ("v1alpha1", "v1alpha2", "v1beta1"))
VOLCANO = "scheduling.volcano.sh/v1beta1"


def gang(least: int | None) -> Json:
    """Return the policy of a gang; None = of pods that are scheduled by themselves."""
    return {"basic": {}} if least is None else {"gang": {"minCount": least}}


def pod_group(
    name: str = "team", least: int | None = 2, *, version: str = V1ALPHA2, workload: str = "", **spec: Any
) -> Json:
    """Return a PodGroup; workload : the Workload whose group "workers" it is."""
    if workload and version == V1ALPHA2:
        reference = {"workloadName": workload, "podGroupTemplateName": "workers"}
        spec["podGroupTemplateRef"] = {"workload": reference}
    elif workload:
        spec["workloadRef"] = {"workloadName": workload, "templateName": "workers"}
    return _object(version, "PodGroup", name, {"schedulingPolicy": gang(least), **spec})


def workload(
    name: str = "train", least: int | None = 2, *, version: str = V1ALPHA2, job: str = "", groups: int = 1
) -> Json:
    """Return a Workload; job : the Job that makes its pods; groups : how many it has, "workers" first."""
    spec: Json = {"controllerRef": {"apiGroup": "batch", "kind": "Job", "name": job}} if job else {}
    field, policy = ("podGroups", "policy") if version == V1ALPHA1 else ("podGroupTemplates", "schedulingPolicy")
    names = ["workers", *(f"others-{at}" for at in range(1, groups))]
    return _object(version, "Workload", name, spec | {field: [{"name": one, policy: gang(least)} for one in names]})


def volcano_group(name: str = "team", least: int | None = 2) -> Json:
    """Return a PodGroup of Volcano."""
    return _object(VOLCANO, "PodGroup", name, {} if least is None else {"minMember": least})


def member(name: str, group: str = "team", **more: Any) -> Json:
    """Return a pod of a PodGroup."""
    return k8s.pod(name, spec={"schedulingGroup": {"podGroupName": group}}, **more)


def workload_member(name: str, of: str = "train", group: str = "workers", replica: str = "") -> Json:
    """Return a pod of a group of a Workload, as Kubernetes 1.35 has it."""
    reference = {"name": of, "podGroup": group} | ({"podGroupReplicaKey": replica} if replica else {})
    return k8s.pod(name, spec={"workloadRef": reference})


def volcano_member(name: str, group: str = "team", **more: Any) -> Json:
    """Return a pod of a PodGroup of Volcano."""
    return k8s.pod(name, annotations={"scheduling.k8s.io/group-name": group}, **more)


def kueue_member(name: str, group: str = "team", total: str = "3", **more: Any) -> Json:
    """Return a pod of a group of Kueue."""
    annotations = {"kueue.x-k8s.io/pod-group-total-count": total}
    return k8s.pod(name, labels={"kueue.x-k8s.io/pod-group-name": group}, annotations=annotations, **more)


def _object(version: str, kind: str, name: str, spec: Json) -> Json:
    meta = {"name": name, "namespace": "default", "creationTimestamp": k8s.CREATED}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}
