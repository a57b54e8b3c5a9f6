"""Notes about kinds that are missing from an input although its pods refer to them, which would change answers, and
about controllers of other kinds. Decides nothing. A kind that is given, even without objects, is not missing. That
there are no controllers at all is noted by the planner, for every caller.
"""

from collections import Counter
from collections.abc import Iterable, Set

from trimtab.common.kubernetes.kinds.pods import Pod
from trimtab.common.kubernetes.registry import BY_KIND
from trimtab.common.objects.objects import Objects
from trimtab.common.objects.owners import controller_of, is_of_other_kind
from trimtab.v1 import snapshot_pb2 as pb
from trimtab.words import counted

_HAVE = ("has", "have")
_REPLICATED = ("Job", "ReplicaSet", "ReplicationController", "StatefulSet")
"""Kinds of controllers that must be known before their pods may be drained."""


def absent_from(objects: Objects, snapshot: pb.ClusterSnapshot) -> list[str]:
    """Return the notes on the objects of a whole cluster, and the snapshot made of them."""
    pods = ((pod, 1) for pod in objects.of("Pod"))
    return absent_notes(pods, objects.given, snapshot.pod_specs, has_owners=bool(snapshot.owners))


def absent_notes(
    pods: Iterable[tuple[Pod, int]], given: Set[str], specs: Iterable[pb.PodSpec], *, has_owners: bool
) -> list[str]:
    """Return a note for each kind that is missing. pods : with the number of pods that are alike; given : the kinds
    that the input has; has_owners : whether it has any controller. O(pods + specs)."""
    missed, unknown = Counter[str](), Counter[str]()
    for pod, count in pods:
        references = pod.metadata.owner_references if pod.metadata else None
        controller = controller_of(references) if references else None
        if controller is not None and controller.kind in _REPLICATED and controller.kind not in given:
            missed[controller.kind] += count
        elif controller is not None and is_of_other_kind(controller):
            unknown[controller.kind or ""] += count
    notes = [
        f"{counted(count, 'pod', _HAVE)} a {kind} as controller, which counts as not found, because the "
        f"input has no {kind}; "
        f"add `kubectl get {BY_KIND[kind].plural} -A`"
        for kind, count in sorted(missed.items())
        if has_owners
    ]
    notes += [
        f"{counted(count, 'pod', _HAVE)} a controller of kind {kind}, which the Cluster Autoscaler does "
        "not know to create pods again, so they keep their nodes; "
        'annotate them `cluster-autoscaler.kubernetes.io/safe-to-evict: "true"` if it does'
        for kind, count in sorted(unknown.items())
    ]
    if "Namespace" not in given and any(map(_selects_namespaces, specs)):
        notes.append(
            "pods select other pods by labels of their namespaces, and the input has no Namespace; add "
            "`kubectl get namespaces`"
        )
    return notes


def _selects_namespaces(spec: pb.PodSpec) -> bool:
    return any(
        term.HasField("namespace_selector") and term.namespace_selector.requirements
        for terms in (spec.pod_affinity, spec.pod_anti_affinity)
        for term in terms
    )
