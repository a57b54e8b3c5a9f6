"""The token of each string of a recording: equal strings have equal tokens, in the order of the strings. Decides which
strings stay: those with a meaning to Kubernetes or the planner. Never reads a message. Everything else is replaced,
including integers; integers that a selector compares become others in the same order (`integers`).
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping

from trimtab.common.kubernetes.signals import cluster_autoscaler

# fmt: off
KEPT = frozenset((
    "", "0", "A", "a", "default", "kube-system", "kube-public", "kube-node-lease", "default-scheduler", "metadata.name",
    "TCP", "UDP", "SCTP", "0.0.0.0", "::", "true", "false", "amd64", "arm64", "linux", "windows",
    "cpu", "memory", "pods", "ephemeral-storage", "gpu", "cloud.google.com", "gke-accelerator",
    cluster_autoscaler.TO_BE_DELETED.key, cluster_autoscaler.DELETION_CANDIDATE.key,
    "ReplicaSet", "StatefulSet", "Deployment", "DaemonSet", "ReplicationController", "Job", "v1", "apps", "batch",
    "check-capacity.autoscaling.x-k8s.io", "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
    "PodGroup", "PodGroup.scheduling.volcano.sh", "Workload", "Pod", "deviceclass.resource.kubernetes.io",
    # Domains of keys; the part after a domain is replaced, except in the keys below.
    "kubernetes.io", "k8s.io", "topology.kubernetes.io", "failure-domain.beta.kubernetes.io", "beta.kubernetes.io",
    "node.kubernetes.io", "node-role.kubernetes.io", "node-restriction.kubernetes.io", "app.kubernetes.io",
    "node.cloudprovider.kubernetes.io", "cluster-autoscaler.kubernetes.io",
    "startup-taint.cluster-autoscaler.kubernetes.io", "status-taint.cluster-autoscaler.kubernetes.io",
    "ignore-taint.cluster-autoscaler.kubernetes.io",
    "apps.kubernetes.io", "statefulset.kubernetes.io", "batch.kubernetes.io",
))
# fmt: on
"""Strings that Kubernetes or the planner knows."""
_KEYS = {
    "kubernetes.io": "hostname os arch metadata.name",
    "topology.kubernetes.io": "zone region",
    "failure-domain.beta.kubernetes.io": "zone region",
    "beta.kubernetes.io": "os arch instance-type",
    "node.kubernetes.io": "instance-type not-ready unreachable unschedulable memory-pressure disk-pressure pid-pressure"
    " network-unavailable out-of-service",
    "node-role.kubernetes.io": "control-plane master worker",
    "node.cloudprovider.kubernetes.io": "uninitialized shutdown",
    "app.kubernetes.io": "name instance version component part-of managed-by",
    "apps.kubernetes.io": "pod-index",
    "statefulset.kubernetes.io": "pod-name",
    "batch.kubernetes.io": "job-name controller-uid job-completion-index",
    "cloud.google.com": "gke-accelerator",
}
KEPT_KEYS = frozenset(f"{domain}/{word}" for domain, words in _KEYS.items() for word in words.split())
"""Keys that Kubernetes knows."""
_OWN_DOMAIN = ".kubernetes.io"
"""Resources of its subdomains count as Kubernetes' own, so the token of such a domain has the same ending."""
_STARTS = ("", "0", "A", "a")
"""Anchors that always exist: one below each kind of first character that a valid string may have."""
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""Values of labels and names in their keys; and the part before the slash of a key."""
_PARTED = re.compile(r"[^/]+")
_NEW_NODE = re.compile(r"([^#]+)(#(?:[0-9]+|upcoming))")
"""Name of a node that does not exist, as `Places.nodes` has it: a node group, and which of its new nodes."""


def tokens_of(
    strings: Iterable[str], integers: Mapping[str, str] | None = None, nodes: Iterable[str] = ()
) -> dict[str, str]:
    """Return the token of each string that has one: kept strings, and all strings without a slash. integers : compared
    integers with their tokens; nodes : names of nodes, whose tokens are readable (`node-1`) and in the order of the
    names, but not in that of other strings: names of nodes are compared with one another only.

    The order of tokens without a slash, bytewise, is that of their strings: a token is that of the greatest anchor
    below (a kept string or an integer), "-" (which sorts before all other characters of names), and a number. A token
    is as valid in a label, and before the slash of its key, as its string. Strings with a slash consist of the tokens
    of their parts.
    """
    ordered = sorted(set(strings), key=str.encode)
    known = integers or {}
    tokens = {text: known.get(text, text) for text in ordered if text in KEPT or text in KEPT_KEYS or text in known}
    plain = [text for text in ordered if "/" not in text]
    anchors = sorted({*_STARTS, *(text for text in plain if text in tokens and text[:1] not in "-+")}, key=str.encode)
    anchor_bytes = [text.encode() for text in anchors]
    width = len(str(len(plain)))
    tokens.update(_nodes(nodes, tokens))
    for rank, text in enumerate(plain):
        if text not in tokens:
            anchor = anchors[bisect_right(anchor_bytes, text.encode()) - 1]
            start = f"{tokens.get(anchor, anchor)}-" if anchor else "!"
            tokens[text] = f"{start}{rank:0{width}}{_ending(text)}"
    return tokens


def _nodes(names: Iterable[str], tokens: Mapping[str, str]) -> dict[str, str]:
    """Return the tokens of nodes; none if one of them has a token already, which would break their order."""
    ordered = sorted(set(names), key=str.encode)
    if any(name in tokens or "/" in name for name in ordered):
        return {}
    width = len(str(len(ordered)))
    return {name: f"node-{rank:0{width}}{_ending(name)}" for rank, name in enumerate(ordered, 1)}


def atoms(text: str) -> Iterator[str]:
    """Yield the strings that need tokens for a text: itself, the parts of "namespace/name", of "a__b"; of the name of a
    new node, those of its node group.
    """
    if new := _NEW_NODE.fullmatch(text):
        text = new[1]
    yield text
    if "/" in text:
        yield from _PARTED.findall(text)
    if "__" in text:
        yield from text.split("__")


def replaced(text: str, tokens: Mapping[str, str]) -> str:
    """Return a text's replacement: zones part by part; keys of pods part by part where the parts are names; new nodes
    are named by their node group again.
    """
    if new := _NEW_NODE.fullmatch(text):
        return replaced(new[1], tokens) + new[2]
    if "__" in text and "/" not in text:
        return "__".join(tokens[part] for part in text.split("__"))
    if text in tokens:
        return tokens[text]
    return _PARTED.sub(lambda part: tokens[part[0]], text)


def _ending(text: str) -> str:
    """Return the ending that keeps a token as valid as its string, and a subdomain of Kubernetes' domain within it."""
    if text.endswith(_OWN_DOMAIN) and _DOMAIN.fullmatch(text):
        return _OWN_DOMAIN
    if _DOMAIN.fullmatch(text):
        return ""
    return "_0" if _NAME.fullmatch(text) else "!"
