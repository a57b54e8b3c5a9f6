"""Advice carried out: its lines applied to settings and Kubernetes objects, as their author would apply them, and as
the controllers of Kubernetes then change pods and statuses. Reads the advice in the form for programs only, and shares
no code with what makes it.
"""

import json
from typing import Any

Json = dict[str, Any]


def carried_out(objects: list[Json], settings: Json, advice: Json) -> tuple[list[Json], Json]:
    """Return copies of objects and settings with all changes of an advice, in the form for programs."""
    # Not a deep copy, in which parts that objects share would be changed together.
    cluster, changed = json.loads(json.dumps(objects)), json.loads(json.dumps(settings))
    for change in advice["changes"]:
        if change["object"] == "":
            put(changed, change["keys"], change["after"])
        else:
            cluster = with_change(cluster, change)
    return cluster, changed


def put(document: Any, keys: list[Any], value: Any) -> None:
    """Write a field, creating the mappings on its path; None removes it."""
    for key in keys[:-1]:
        document = document[key] if isinstance(key, int) else document.setdefault(key, {})
    if value is None:
        document.pop(keys[-1], None)
    else:
        document[keys[-1]] = value


def with_change(cluster: list[Json], change: Json) -> list[Json]:
    """Return the objects after a change to one of them."""
    kind, *name = change["object"].split("/")
    named = [one for one in cluster if one["kind"] == kind and name_of(one) == name]
    keys = change["keys"]
    if not keys:
        assert change["after"] is None
        return [one for one in cluster if one not in named]
    if keys[:2] == ["spec", "template"]:
        change_template(named, pods_of(cluster, change["object"]), keys[2:], change)
        return cluster
    assert len(named) == 1, change["object"]
    put(named[0], keys, change["after"])
    if kind == "PodDisruptionBudget":
        update_status(named[0])
    return cluster


def name_of(one: Json) -> list[str]:
    """Return namespace and name, or the name alone."""
    metadata = one["metadata"]
    return [metadata["namespace"], metadata["name"]] if metadata.get("namespace") else [metadata["name"]]


def pods_of(cluster: list[Json], workload: str) -> list[Json]:
    """Return the pods whose controller, or its controller, is a workload "Kind/namespace/name"."""
    by_key = {"/".join([one["kind"], *name_of(one)]): one for one in cluster}

    def tops(one: Json, key: str) -> list[str]:
        owners = [ref for ref in one["metadata"].get("ownerReferences", ()) if ref.get("controller")]
        if not owners:
            return [key]
        above = "/".join([owners[0]["kind"], one["metadata"]["namespace"], owners[0]["name"]])
        return [key, *(tops(by_key[above], above) if above in by_key else [above])]

    return [one for key, one in by_key.items() if one["kind"] == "Pod" and workload in tops(one, key)[1:]]


def change_template(workloads: list[Json], pods: list[Json], keys: list[Any], change: Json) -> None:
    """Change the template of a workload and, as its controller does, its pods."""
    specs = [one["spec"]["template"] for one in workloads if "template" in one.get("spec", {})]
    for template in (*specs, *pods):
        if keys[-1] == "podAntiAffinity":
            prefer(template["spec"]["affinity"]["podAntiAffinity"])
        elif keys[-2:] == ["topologySpreadConstraints", "whenUnsatisfiable"]:
            for one in template["spec"]["topologySpreadConstraints"]:
                one["whenUnsatisfiable"] = change["after"]
        elif keys[:2] == ["spec", "containers"]:
            (container,) = [one for one in template["spec"]["containers"] if one["name"] == keys[2]]
            container.setdefault("resources", {}).setdefault("requests", {})[keys[-1]] = change["after"]
        else:
            put(template, keys, change["after"])


def prefer(anti_affinity: Json) -> None:
    """Make the required terms preferred."""
    terms = anti_affinity.pop("requiredDuringSchedulingIgnoredDuringExecution")
    preferred = anti_affinity.setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
    preferred.extend({"weight": 100, "podAffinityTerm": term} for term in terms)


def update_status(budget: Json) -> None:
    """Compute the status of a budget from a number in `maxUnavailable`, as the disruption controller does."""
    status, most = budget["status"], budget["spec"].get("maxUnavailable")
    if isinstance(most, int):
        status["desiredHealthy"] = max(status.get("expectedPods", 0) - most, 0)
        status["disruptionsAllowed"] = max(status.get("currentHealthy", 0) - status["desiredHealthy"], 0)
