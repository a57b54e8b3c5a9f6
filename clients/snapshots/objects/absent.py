"""Notes about kinds that are missing from an input although its pods refer to them, which would change answers, and
about kinds that are not read. Decides nothing. A kind that is given, even without objects, is not missing. That there
are no controllers at all is noted by the planner, for every caller.
"""

from collections import Counter

from trimtab.clients.kubernetes.registry import BY_KIND
from trimtab.clients.snapshots.objects.objects import Objects, kind_problem
from trimtab.clients.snapshots.objects.owners import controller_of
from trimtab.v1 import snapshot_pb2 as pb

_REPLICATED = ("Job", "ReplicaSet", "ReplicationController", "StatefulSet")
"""Kinds of controllers that must be known before their pods may be drained."""


def absent_notes(objects: Objects, snapshot: pb.ClusterSnapshot) -> list[str]:
    """Return a note for each kind that is missing. O(pods + spec rows)."""
    missed: Counter[str] = Counter()
    for pod in objects.of("Pod"):
        references = pod.metadata.owner_references
        controller = controller_of(references) if references else None
        if controller is not None and controller.kind in _REPLICATED and controller.kind not in objects.given:
            missed[controller.kind] += 1
    notes = [
        f"{count} pods have a {kind} as controller, which counts as not found, because the input has no {kind}; "
        f"add `kubectl get {BY_KIND[kind].plural} -A`"
        for kind, count in sorted(missed.items())
        if snapshot.owners
    ]
    if "Namespace" not in objects.given and any(map(_selects_namespaces, snapshot.pod_specs)):
        notes.append(
            "pods select others by labels of namespaces, which count as without labels, because the input has no "
            "Namespace; add `kubectl get namespaces`"
        )
    return notes


def skipped_notes(objects: Objects) -> list[str]:
    """Return a note for each kind of objects that is not read."""
    return [
        f"skipped {count} of {kind}" + ("" if kind_problem(*kind.split(" ", 1)) else ": not needed")
        for kind, count in sorted(objects.skipped.items())
    ]


def _selects_namespaces(spec: pb.PodSpec) -> bool:
    return any(
        term.HasField("namespace_selector") and term.namespace_selector.requirements
        for terms in (spec.pod_affinity, spec.pod_anti_affinity)
        for term in terms
    )
