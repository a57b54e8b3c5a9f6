"""All ways in which a pod selects nodes: node affinity, pod affinity terms, spread constraints, tolerations."""

from __future__ import annotations

from typing import Any

from .source import APPS, EFFECTS, HOST, NAMESPACES, RACK, TAINTS, TIERS, ZONE, Source

NODE_VALUES = {
    ZONE: ["zone-a", "zone-b", "zone-c", "zone-d", "zone-x"],
    "disk": ["ssd", "hdd", "nvme"],
    "pool": ["blue", "green", "red"],
    "kubernetes.io/arch": ["amd64", "arm64"],
    RACK: [f"rack-{i}" for i in range(6)],
    "gen": [str(i) for i in range(1, 10)],
    "absent": ["q"],
}
POD_VALUES = {"app": APPS, "tier": TIERS, "canary": ["yes"]}
NAMESPACE_SELECTORS: list[dict[str, Any]] = [
    {},
    {"matchLabels": {"env": "prod"}},
    {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
    {"matchLabels": {"env": "none"}},
    {"matchLabels": {"kubernetes.io/metadata.name": "team-b"}},
]


def _node_requirement(s: Source) -> dict[str, Any]:
    operator = s.pick(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
    key = "gen" if operator in ("Gt", "Lt") else s.pick(list(NODE_VALUES))
    requirement: dict[str, Any] = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        requirement["values"] = s.some(NODE_VALUES[key], 1, 3)
    elif operator in ("Gt", "Lt"):
        requirement["values"] = [str(s.number(0, 9))]
    return requirement


def node_affinity(s: Source, node_count: int) -> dict[str, Any]:
    """Required node affinity of one to three terms, some of them empty (which match nothing)."""
    terms = []
    for _ in range(s.number(1, 3)):
        term: dict[str, Any] = {}
        if s.chance(0.9):
            term["matchExpressions"] = [_node_requirement(s) for _ in range(s.number(1, 2))]
        if s.chance(0.12, "matchFields"):
            operator = s.pick(["In", "In", "NotIn"])
            name = f"n{s.number(0, node_count - 1):03d}"
            term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [name]}]
        terms.append(term)
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def pod_selector(s: Source, labels: dict[str, str]) -> dict[str, Any] | None:
    """Mostly the pod's own app; now and then every pod ({}) or none (None)."""
    x = s.random.random()
    if x < 0.5:
        return {"matchLabels": {"app": labels["app"] if s.chance(0.6) else s.pick(APPS)}}
    if x < 0.65:
        return {"matchLabels": {"tier": s.pick(TIERS)}}
    if x < 0.92:
        operator, key = s.pick(["In", "NotIn", "Exists", "DoesNotExist"]), s.pick(list(POD_VALUES))
        requirement: dict[str, Any] = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            requirement["values"] = s.some(POD_VALUES[key], 1, 3)
        return {"matchExpressions": [requirement]}
    return {} if x < 0.96 else None


def _keys_of(selector: dict[str, Any]) -> set[str]:
    return set(selector.get("matchLabels", {})) | {e["key"] for e in selector.get("matchExpressions", [])}


def affinity_term(s: Source, labels: dict[str, str], topology_keys: list[str]) -> dict[str, Any]:
    """One required term of pod affinity or anti-affinity."""
    term: dict[str, Any] = {"topologyKey": s.pick(topology_keys)}
    selector = pod_selector(s, labels)
    if selector is not None:
        term["labelSelector"] = selector
    if s.chance(0.2, "namespaces"):
        term["namespaces"] = s.some(sorted(NAMESPACES), 1, 2)
    if s.chance(0.15, "namespaces"):
        term["namespaceSelector"] = s.pick(NAMESPACE_SELECTORS)
    if selector is None:
        return term
    used = _keys_of(selector)
    if s.chance(0.15, "matchLabelKeys"):
        key = s.pick(["pod-template-hash", "tier"])
        if key not in used:
            term["matchLabelKeys"] = [key]
    if s.chance(0.08, "matchLabelKeys") and "app" not in used:
        term["mismatchLabelKeys"] = ["app"]
    return term


def spread_constraints(s: Source, labels: dict[str, str]) -> list[dict[str, Any]]:
    """One or two topology spread constraints, with and without match for the pod itself."""
    constraints: dict[tuple[str, str], dict[str, Any]] = {}
    for _ in range(s.number(1, 2)):
        constraint: dict[str, Any] = {
            "maxSkew": s.pick([1, 1, 2, 3]),
            "topologyKey": s.pick([ZONE, ZONE, HOST, RACK]),
            "whenUnsatisfiable": s.pick(["DoNotSchedule"] * 5 + ["ScheduleAnyway"]),
        }
        selector = {"matchLabels": {"app": labels["app"]}} if s.chance(0.75) else pod_selector(s, labels)
        if selector is not None:
            constraint["labelSelector"] = selector
        if s.chance(0.25, "minDomains") and constraint["whenUnsatisfiable"] == "DoNotSchedule":
            constraint["minDomains"] = s.number(1, 6)
        spread_policies(s, constraint, 0.3)
        if selector is not None and s.chance(0.25, "matchLabelKeys"):
            keys = [k for k in s.some(["pod-template-hash", "tier", "missing"], 1, 2) if k not in _keys_of(selector)]
            if keys:
                constraint["matchLabelKeys"] = keys
        constraints.setdefault((constraint["topologyKey"], constraint["whenUnsatisfiable"]), constraint)
    return list(constraints.values())


def spread_policies(s: Source, constraint: dict[str, Any], probability: float) -> None:
    """Maybe sets nodeAffinityPolicy and nodeTaintsPolicy."""
    if s.chance(probability, "spreadPolicies"):
        constraint["nodeAffinityPolicy"] = s.pick(["Honor", "Ignore"])
    if s.chance(probability, "spreadPolicies"):
        constraint["nodeTaintsPolicy"] = s.pick(["Honor", "Honor", "Ignore"])


def toleration(s: Source) -> dict[str, Any]:
    """One toleration: of everything, of a key, of a key and value, with or without effect."""
    key, value = s.pick(TAINTS)
    x = s.random.random()
    if x < 0.08:
        return {"operator": "Exists"} if s.chance(0.5) else {"operator": "Exists", "effect": s.pick(EFFECTS)}
    result: dict[str, Any] = {"key": key}
    if x < 0.5:
        result["operator"] = "Exists"
    else:
        if s.chance(0.5):
            result["operator"] = "Equal"
        wanted = value if s.chance(0.8) else "other"
        if wanted:
            result["value"] = wanted
    if s.chance(0.6):
        result["effect"] = s.pick(EFFECTS)
    if result.get("effect") == "NoExecute" and s.chance(0.3):
        result["tolerationSeconds"] = 300
    return result
