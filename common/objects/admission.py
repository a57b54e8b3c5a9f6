"""Defaulting of pods that are made from templates, as the API server does on creation.

Pods of a cluster have been defaulted; a pod made from a PodTemplate, a DaemonSet or a CapacityBuffer has not. Covers
only what scheduling reads: `matchLabelKeys` and `mismatchLabelKeys` become requirements of the selectors beside them;
a DaemonSet's pod gets the tolerations of its controller. Limits as requests and host ports in the host's network are
defaulted wherever a pod is turned into a row.

Source: registry core/pod strategy, applyMatchLabelKeysAndMismatchLabelKeys, applyMatchLabelKeys (1.34; merging of
topology spread is on by default there); controller/daemon/util, AddOrUpdateDaemonPodTolerations.
"""

from typing import Final

import msgspec

from trimtab.common.kubernetes.kinds.controllers import PodTemplateSpec
from trimtab.common.kubernetes.kinds.metadata import LabelSelector, LabelSelectorRequirement
from trimtab.common.kubernetes.kinds.pods import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodMeta,
    PodSpec,
    PodStatus,
    Toleration,
    TopologySpreadConstraint,
)

_replace = msgspec.structs.replace
_NODE: Final = "node.kubernetes.io"
_DAEMON_TOLERATIONS: Final = tuple(
    Toleration(key=f"{_NODE}/{key}", operator="Exists", effect=effect)
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
_NETWORK_TOLERATION: Final = Toleration(key=f"{_NODE}/network-unavailable", operator="Exists", effect="NoSchedule")


def pod_of_template(template: PodTemplateSpec, namespace: str, name: str) -> Pod:
    """Return the pending pod that the API server creates from a template. Does not change the template."""
    meta = _replace(template.metadata or PodMeta(), namespace=namespace, name=name)
    return admitted(Pod(meta, template.spec or PodSpec(), PodStatus(phase="Pending")))


def daemon_pod(template: PodTemplateSpec, namespace: str, name: str) -> Pod:
    """Return the pod that a DaemonSet makes for any node, not pinned to one. Does not change the template."""
    pod = pod_of_template(template, namespace, name)
    spec = pod.spec or PodSpec()
    added = _DAEMON_TOLERATIONS + ((_NETWORK_TOLERATION,) if spec.host_network else ())
    return Pod(pod.metadata, _replace(spec, tolerations=[*(spec.tolerations or ()), *added]), pod.status)


def admitted(pod: Pod) -> Pod:
    """Return the pod as the API server stores it on creation. Does not change its argument; call it once per pod."""
    spec = pod.spec
    if spec is None:
        return pod
    labels = (pod.metadata and pod.metadata.labels) or {}
    affinity = spec.affinity
    if affinity is not None:
        affinity = Affinity(
            affinity.node_affinity,
            _pods(affinity.pod_affinity, labels),
            _away_from_pods(affinity.pod_anti_affinity, labels),
        )
    spread = spec.topology_spread_constraints
    if spread is not None:
        spread = [_spread(constraint, labels) for constraint in spread]
    return Pod(pod.metadata, _replace(spec, affinity=affinity, topology_spread_constraints=spread), pod.status)


def _pods(affinity: PodAffinity | None, labels: dict[str, str]) -> PodAffinity | None:
    if affinity is None or affinity.required is None:
        return affinity
    return PodAffinity([_term(term, labels) for term in affinity.required])


def _away_from_pods(affinity: PodAntiAffinity | None, labels: dict[str, str]) -> PodAntiAffinity | None:
    if affinity is None:
        return None
    required = affinity.required and [_term(term, labels) for term in affinity.required]
    preferred = affinity.preferred and [
        _replace(one, pod_affinity_term=one.pod_affinity_term and _term(one.pod_affinity_term, labels))
        for one in affinity.preferred
    ]
    return PodAntiAffinity(required, preferred)


def _term(term: PodAffinityTerm, labels: dict[str, str]) -> PodAffinityTerm:
    selector = _merged(term.label_selector, term.match_label_keys, "In", labels)
    return _replace(term, label_selector=_merged(selector, term.mismatch_label_keys, "NotIn", labels))


def _spread(constraint: TopologySpreadConstraint, labels: dict[str, str]) -> TopologySpreadConstraint:
    return _replace(
        constraint, label_selector=_merged(constraint.label_selector, constraint.match_label_keys, "In", labels)
    )


def _merged(
    selector: LabelSelector | None, keys: list[str] | None, operator: str, labels: dict[str, str]
) -> LabelSelector | None:
    """Return the selector with a requirement for each key that the pod has; None, which matches nothing, stays None."""
    if selector is None or not keys:
        return selector
    more = [LabelSelectorRequirement(key, operator, [labels[key]]) for key in keys if key in labels]
    return LabelSelector(selector.match_labels, [*(selector.match_expressions or ()), *more])
