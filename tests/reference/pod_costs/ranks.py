"""Ranks and costs of one group by loops over its pods, sharing no code with the planner.

Every function takes the pods of a group as dictionaries: name, created_s, zone (None = the node lacks the label),
taints (untolerated ones of the node: effects), price (None = unknown), number (None = missing, nan = invalid), and
returns a rank for each, or a reason for the whole group.
"""

import math
from fractions import Fraction
from typing import Any

from trimtab.v1 import plan_pb2
from trimtab.v1.reason_pb2 import PodCostGroupReason as Reason
from trimtab.v1.snapshot_pb2 import TaintEffect

Pod = dict[str, Any]
S = plan_pb2.PodCostStrategy
USUAL = {S.YOUNGEST: 2**26, S.OLDEST: 2**26, S.NODE_DRAIN: 1000, S.NODE_COST: 1000}


def balance_domains(pods: list[Pod], term: plan_pb2.PodCostTerm) -> list[float]:
    """Return 1 + the number of pods in the same zone that are older, or of the same age and earlier by name."""
    key = [(pod["created_s"], pod["name"].encode()) for pod in pods]
    return [
        1.0 + sum(1 for j, other in enumerate(pods) if other["zone"] == pod["zone"] and key[j] < key[i])
        for i, pod in enumerate(pods)
    ]


def ages(pods: list[Pod], term: plan_pb2.PodCostTerm) -> list[float]:
    """Return seconds after the oldest pod, or after the start of its 388 days."""
    oldest = min(pod["created_s"] for pod in pods)
    if not term.HasField("threshold"):
        oldest -= oldest % 2**25
    return [float(pod["created_s"] - oldest) for pod in pods]


def own_ranks(pods: list[Pod], term: plan_pb2.PodCostTerm) -> list[float]:
    """Return the ranks of one strategy in its own unit."""
    limit = threshold(term)
    if term.strategy == S.BALANCE_DOMAINS:
        return balance_domains(pods, term)
    if term.strategy == S.UNTOLERATED_TAINTS:
        return [float(len(pod["taints"])) for pod in pods]
    if term.strategy == S.PREFER_NO_SCHEDULE_NODES:
        return [float(TaintEffect.PREFER_NO_SCHEDULE in pod["taints"]) for pod in pods]
    if term.strategy == S.YOUNGEST:
        return ages(pods, term)
    if term.strategy == S.OLDEST:
        return [limit - min(age, limit) for age in ages(pods, term)]
    if term.strategy == S.NODE_COST:
        return [float(pod["price"]) for pod in pods]
    if term.strategy == S.IDLE:
        return [max(pod["number"], 0.0) for pod in pods]
    if term.strategy == S.ACCUMULATED_WORK:
        return [limit - min(max(pod["number"], 0.0), limit) for pod in pods]
    raise NotImplementedError(term)


def problem(pods: list[Pod], term: plan_pb2.PodCostTerm) -> set[int]:
    """Return the reasons why a strategy cannot rank some pod; empty = it can."""
    at_nodes = (S.BALANCE_DOMAINS, S.UNTOLERATED_TAINTS, S.PREFER_NO_SCHEDULE_NODES, S.NODE_COST)
    found: set[int] = set()
    for pod in pods:
        if term.strategy in at_nodes and not pod["node"]:
            found.add(Reason.POD_WITHOUT_NODE)
        elif term.strategy == S.BALANCE_DOMAINS and pod["zone"] is None:
            found.add(Reason.TOPOLOGY_KEY_MISSING)
        elif term.strategy == S.NODE_COST and pod["price"] is None:
            found.add(Reason.PRICE_UNKNOWN)
        elif term.strategy in (S.IDLE, S.ACCUMULATED_WORK) and pod["number"] is None:
            found.add(Reason.ANNOTATION_MISSING)
        elif term.strategy in (S.IDLE, S.ACCUMULATED_WORK) and math.isnan(pod["number"]):
            found.add(Reason.ANNOTATION_INVALID)
        elif term.strategy in (S.YOUNGEST, S.OLDEST) and not pod["created_s"]:
            found.add(Reason.AGE_UNKNOWN)
    return found


def threshold(term: plan_pb2.PodCostTerm) -> float:
    """Return the divisor of ranks."""
    return term.threshold if term.HasField("threshold") else float(USUAL.get(term.strategy, 2**20))


def weight(term: plan_pb2.PodCostTerm) -> float:
    """Return the weight, by default 1."""
    return term.weight if term.HasField("weight") else 1.0


def exact_costs(ranks: list[list[float]], terms: list[plan_pb2.PodCostTerm]) -> list[Fraction]:
    """Return costs before rounding, in exact arithmetic. ranks : by strategy."""
    total = sum(Fraction(weight(term)) for term in terms)
    unit = Fraction(2**26) if total * 2**26 <= 2**31 - 1 else Fraction(2**31 - 1) / total
    sums = []
    for i in range(len(ranks[0])):
        parts = (
            Fraction(min(rank[i], threshold(term))) / Fraction(threshold(term)) * Fraction(weight(term))
            for rank, term in zip(ranks, terms, strict=True)
        )
        sums.append(-unit * sum(parts))
    return sums
