"""Why a pod's claims get no devices on a node, in words: which claim, request and pool. Never decides."""

from collections.abc import Iterable, Sequence

from trimtab.reason_texts import clauses
from trimtab.v1 import planner_pb2, reason_pb2

OF_DEVICES = (reason_pb2.PredicateReason.DEVICES_NOT_AVAILABLE, reason_pb2.PredicateReason.CLAIM_UNUSABLE)
"""Reasons of nodes that the refusals of claims explain."""
_TEXTS = clauses(reason_pb2.DeviceReason)


def device_kinds(node: planner_pb2.NodeFit) -> tuple[tuple[str, str, int], ...]:
    """Return what nodes have in common that refuse a pod for the same reasons: claim, request and reason, no pools."""
    return tuple(sorted({(one.claim, one.request, one.reason) for one in node.devices}))


def device_cause(refusals: Iterable[planner_pb2.DeviceRefusal], pool_words: str = "in pool") -> str:
    """Return why claims get no devices, "" = that is not known. pool_words : what stands before the name of a pool."""
    texts: dict[str, list[str]] = {}
    for one in refusals:
        claim = f"claim {one.claim}, " if one.claim else "" if one.request or one.detail else "its extended resources, "
        what = f"{claim}request {one.request}" if one.request else claim.removesuffix(", ")
        reason = one.detail or _TEXTS.get(one.reason, "")
        reason += " (a device lacks this attribute or capacity)" if "no such key" in reason else ""
        texts.setdefault(what, []).append(f"{reason} {pool_words} {one.pool}" if one.pool else reason)
    causes = {what: ", ".join(dict.fromkeys(reasons)) for what, reasons in texts.items()}
    return "; ".join(f"{what}: {reasons}" if what else reasons for what, reasons in causes.items())


def device_causes(nodes: Sequence[planner_pb2.NodeFit]) -> list[tuple[str, list[str]]]:
    """Return why claims get no devices on some nodes, and their names, by cause; pools are those of the first node."""
    alike: dict[object, list[planner_pb2.NodeFit]] = {}
    for node in nodes:
        alike.setdefault(device_kinds(node), []).append(node)
    return [
        (device_cause(of[0].devices, "in pool" if len(of) == 1 else "in pools such as"), [one.node for one in of])
        for of in alike.values()
    ]
