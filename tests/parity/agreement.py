"""When our answer about a pod and a node agrees with the scheduler's.

Whether the pod fits must be equal, always. The failing plugins must be equal too, except that
- a gated or unsupported pod needs no further reason than that;
- claims that no node can help with are one refusal, whichever of the four volume plugins says it (each of them looks
  the claims up for itself, and stumbles over some);
- of InterPodAffinity's three checks the scheduler names the first that fails, we may name several.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.parity.recordings import VOLUME_PLUGINS, claim_is_unusable
from trimtab.reason_texts import PREDICATE_TEXTS
from trimtab.v1 import reason_pb2

SCHEDULER_ORDER = (
    "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity",
    "NodeDeclaredFeatures", "DynamicResources", "SchedulingGates",
)  # fmt: skip
"""Filter plugins in the order of the scheduler's default configuration; those that say enough alone come last."""
NOT_OURS = {"UNSUPPORTED_CONSTRAINT": "DynamicResources", "SCHEDULING_GATED": "SchedulingGates"}
"""Plugins that say no where we have a reason without a Filter plugin."""
PLUGIN_OF = {
    name: NOT_OURS.get(name) or PREDICATE_TEXTS[number].plugin
    for name, number in reason_pb2.PredicateReason.Code.items() if number
}  # fmt: skip
POD_AFFINITY_MESSAGE = {
    "POD_AFFINITY_NOT_MATCHED": "node(s) didn't match pod affinity rules",
    "POD_ANTI_AFFINITY_VIOLATED": "node(s) didn't match pod anti-affinity rules",
    "EXISTING_POD_ANTI_AFFINITY_VIOLATED": "node(s) didn't satisfy existing pods anti-affinity rules",
}
ENOUGH = ("SchedulingGates", "DynamicResources")


class Verdict(NamedTuple):
    """Our answer for one pod and one node: names of `PredicateReason` and of insufficient resources."""

    fits: bool
    reasons: tuple[str, ...]
    insufficient: tuple[str, ...] = ()


def _resources_differ(message: str, ours: Verdict) -> str:
    parts = message.split("; ")
    too_many = "Too many pods" in parts
    lacking = sorted(part.removeprefix("Insufficient ") for part in parts if part != "Too many pods")
    if too_many != ("TOO_MANY_PODS" in ours.reasons):
        return f"scheduler says {message!r}"
    if lacking != sorted(ours.insufficient):
        return f"scheduler says {message!r}, we lack {sorted(ours.insufficient)}"
    return ""


def disagreement(expected: dict[str, str], ours: Verdict) -> str:
    """Return the difference between the scheduler's refusals (plugin to message; none = fits) and our verdict."""
    if ours.fits == bool(expected):
        return f"we say {'fits' if ours.fits else ', '.join(ours.reasons)}; the scheduler: {expected or 'fits'}"
    places = [SCHEDULER_ORDER.index(PLUGIN_OF[reason]) for reason in ours.reasons]
    if places != sorted(places) or len(set(ours.reasons)) < len(ours.reasons):
        return f"{ours.reasons} are not in the scheduler's order"
    plugins, wanted = {PLUGIN_OF[reason] for reason in ours.reasons}, set(expected)
    for plugin in ENOUGH:
        if plugin in wanted:
            return "" if plugin in plugins else f"{ours.reasons} lacks {plugin}"
    if claim_is_unusable(expected):
        if not plugins & VOLUME_PLUGINS:
            return f"{ours.reasons}, but the scheduler finds {expected}"
        plugins, wanted = plugins - VOLUME_PLUGINS, wanted - VOLUME_PLUGINS
    if plugins != wanted:
        return f"we refuse by {sorted(plugins)}, the scheduler by {sorted(wanted)}"
    return _details_differ({plugin: expected[plugin] for plugin in wanted}, ours)


def _details_differ(expected: dict[str, str], ours: Verdict) -> str:
    """Compare what the messages of the plugins say, where all plugins agree."""
    if "NodeVolumeLimits" in expected:
        is_missing = "CSI_DRIVER_MISSING" in ours.reasons
        if is_missing != expected["NodeVolumeLimits"].endswith("CSI driver is not installed on the node"):
            return f"{ours.reasons}, but the scheduler finds {expected['NodeVolumeLimits']!r}"
    if "NodeResourcesFit" in expected:
        return _resources_differ(expected["NodeResourcesFit"], ours)
    if "InterPodAffinity" in expected:
        ours_of_three = [POD_AFFINITY_MESSAGE[r] for r in ours.reasons if r in POD_AFFINITY_MESSAGE]
        if expected["InterPodAffinity"] not in ours_of_three:
            return f"{ours.reasons}, but the scheduler first finds {expected['InterPodAffinity']!r}"
    return ""
