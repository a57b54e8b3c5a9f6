"""What a pod claims: each entry of `spec.resourceClaims`, resolved to the claim or the template that it names.

Decides which claim an entry means, and whether it can be used: a claim that is missing, is being deleted or belongs to
another pod, and a spec that the API server would refuse, keep the pod from every node, with a text that says so.
Source: scheduler plugin dynamicresources, PreEnqueue and PreFilter; k8s.io/dynamic-resource-allocation resourceclaim.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from trimtab.common.kubernetes.kinds.devices import (
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceDeviceClass,
    ResultDevice,
)
from trimtab.common.kubernetes.kinds.metadata import ObjectMeta, OwnerReference
from trimtab.common.kubernetes.kinds.pod_groups import SchedulingPodGroup
from trimtab.common.kubernetes.kinds.pods import Pod
from trimtab.common.kubernetes.object_errors import FieldError, below
from trimtab.common.objects.devices.claim_specs import claim_spec
from trimtab.common.objects.devices.extended_resources import IMPLICIT
from trimtab.common.objects.objects import by_key
from trimtab.v1 import snapshot_pb2 as pb

MOST_RESULTS: Final = 32
"""Devices of a claim (`AllocationResultsMaxSize` of resource/v1)."""
Key = tuple[str, str]
"""(namespace, name)."""


class PodClaimEntry(NamedTuple):
    """An entry of `spec.resourceClaims`: its name, the claim or the template that it names ("" = not so), and the claim
    that was made from the template; None = none yet, "" = none is needed.
    """

    name: str
    claim: str
    template: str
    made: str | None = None


class Claimant(NamedTuple):
    """A pod that claims. `group` : its group of Kubernetes' PodGroups, "" = none; `entries` : in their order."""

    namespace: str
    name: str
    uid: str
    group: str
    entries: tuple[PodClaimEntry, ...]


class ResolvedClaim(NamedTuple):
    """A claim of a pod by content, as `PodClaim` has it."""

    name: str
    shared: str
    spec: ResourceClaimSpec | None
    problem: str


class ClaimObjects(NamedTuple):
    """The objects to which claims of pods are resolved. `claims`, `templates`, `groups` : by (namespace, name);
    `resources` : names of extended resources that classes provide; `are_known` : the cluster was asked for them.
    """

    claims: Mapping[Key, ResourceClaim] = MappingProxyType({})
    templates: Mapping[Key, ResourceClaimTemplate] = MappingProxyType({})
    groups: Mapping[Key, SchedulingPodGroup] = MappingProxyType({})
    resources: frozenset[str] = frozenset()
    are_known: bool = True


NO_CLAIMS: Final = ClaimObjects()
_UNREADABLE: Final = "it is missing, or cannot be read"
ASKED: Final = "kubectl get resourceclaims,resourceclaimtemplates,resourceslices,deviceclasses -A"
"""The command that lists what plans need of devices."""


def claim_objects(objects: Mapping[str, Sequence[Any]], known: Collection[str]) -> ClaimObjects:
    """Return the objects of a collection by kind; `known` : which of the kinds of claims it was asked for."""
    claims, templates, groups = (
        by_key(objects.get(kind, ())) for kind in ("ResourceClaim", "ResourceClaimTemplate", "PodGroup")
    )
    return ClaimObjects(
        claims, templates, groups, provided_resources(objects.get("DeviceClass", ())), are_known=bool(known)
    )


def entries_of(pod: Pod) -> tuple[PodClaimEntry, ...]:
    """Return the claims of a pod as its spec and status have them."""
    wanted = pod.spec.resource_claims if pod.spec else None
    if not wanted:
        return ()
    made = {
        one.name or "": one.resource_claim_name or ""
        for one in (pod.status.resource_claim_statuses if pod.status else None) or ()
    }
    return tuple(
        PodClaimEntry(
            one.name or "",
            one.resource_claim_name or "",
            one.resource_claim_template_name or "",
            made.get(one.name or "") if one.resource_claim_template_name else None,
        )
        for one in wanted
    )


def claimant(pod: Pod, namespace: str, name: str, uid: str = "") -> Claimant | None:
    """Return who claims devices; None if a pod claims none."""
    entries = entries_of(pod)
    return Claimant(namespace, name, uid, kubernetes_group(pod), entries) if entries else None


def kubernetes_group(pod: Pod) -> str:
    """Return the name of a pod's PodGroup; "" if it has none."""
    group = pod.spec.scheduling_group if pod.spec else None
    return (group.pod_group_name if group else None) or ""


def provided_resources(classes: Iterable[ResourceDeviceClass]) -> frozenset[str]:
    """Return the names of the extended resources that classes provide."""
    names = set()
    for one in classes:
        if one.metadata and one.metadata.name:
            names.add(IMPLICIT + one.metadata.name)
            if one.spec and one.spec.extended_resource_name:
                names.add(one.spec.extended_resource_name)
    return frozenset(names)


def resolve(pod: Claimant, objects: ClaimObjects) -> Iterator[ResolvedClaim]:
    """Yield what a pod claims; an entry for which no claim is needed is left out."""
    for entry in pod.entries:
        if entry.claim:
            yield _shared(entry.name, pod, entry.claim, objects)
        elif not entry.template:
            problem = "it names neither a ResourceClaim nor a ResourceClaimTemplate"
            yield ResolvedClaim(entry.name, "", None, f"spec.resourceClaims, {entry.name}: {problem}")
        elif entry.made is None:
            yield _of_template(entry, pod, objects)
        elif entry.made:
            yield _own(entry, pod, objects)


def content_of(claims: Iterable[ResolvedClaim]) -> bytes:
    """Return the same bytes for equal claims."""
    return _encode(list(claims))


_encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode


def pod_claim(claim: ResolvedClaim) -> pb.PodClaim:
    """Return a claim as a message."""
    row = pb.PodClaim(name=claim.name, shared_claim=claim.shared, problem=claim.problem)
    if claim.spec is not None:
        try:
            row.spec.CopyFrom(claim_spec(claim.spec))
        except FieldError as error:
            row.problem = f"spec.resourceClaims, {claim.name}: {error}"
    return row


def _shared(name: str, pod: Claimant, claim: str, objects: ClaimObjects) -> ResolvedClaim:
    """Return a claim that other pods may have too."""
    found = objects.claims.get((pod.namespace, claim))
    return ResolvedClaim(
        name, claim, None, _problem(f"{pod.namespace}/{claim}", found, objects) or _broken(claim, found)
    )


def _own(entry: PodClaimEntry, pod: Claimant, objects: ClaimObjects) -> ResolvedClaim:
    """Return the claim that was made for a pod, or for its group."""
    return _made(entry, entry.made or "", pod, objects)


def _made(entry: PodClaimEntry, claim: str, pod: Claimant, objects: ClaimObjects) -> ResolvedClaim:
    key = (pod.namespace, claim)
    found = objects.claims.get(key)
    problem = _problem("/".join(key), found, objects)
    if found is None:
        template = objects.templates.get((pod.namespace, entry.template))
        return ResolvedClaim(entry.name, "", _template_spec(template), problem)
    owner = claim_owner(found)
    if owner is not None and owner.kind == "PodGroup":
        return ResolvedClaim(entry.name, key[1], None, problem or _broken(key[1], found))
    is_own = owner is not None and owner.name == pod.name and owner.uid in (None, "", pod.uid)
    if not problem and not is_own:
        problem = f"ResourceClaim {'/'.join(key)} exists, but is not of this pod"
    if not problem and found.spec is None:
        problem = f"ResourceClaim {'/'.join(key)}: spec: {_UNREADABLE}"
    return ResolvedClaim(entry.name, "", found.spec, problem)


def _of_template(entry: PodClaimEntry, pod: Claimant, objects: ClaimObjects) -> ResolvedClaim:
    """Return the claim that will be made for a pod, or for its group, if the group has an entry like it."""
    key = (pod.namespace, entry.template)
    found, shared = objects.templates.get(key), ""
    group = objects.groups.get((pod.namespace, pod.group))
    if _is_of_group(entry, group):
        made = _made_for_group(entry, pod, group, objects)
        if made:
            return _made(entry, made, pod, objects)
        shared = f"{pod.group}/{entry.name}"
    if found is None:
        missing = f"ResourceClaimTemplate {'/'.join(key)} does not exist"
        return ResolvedClaim(entry.name, shared, None, missing if objects.are_known else _unknown(missing))
    spec = _template_spec(found)
    problem = "" if spec is not None else f"ResourceClaimTemplate {'/'.join(key)}: spec.spec: {_UNREADABLE}"
    return ResolvedClaim(entry.name, shared, spec, problem)


def _is_of_group(entry: PodClaimEntry, group: SchedulingPodGroup | None) -> bool:
    claims = (group.spec.resource_claims if group and group.spec else None) or ()
    return any(claim.name == entry.name and claim.resource_claim_template_name == entry.template for claim in claims)


def _made_for_group(
    entry: PodClaimEntry, pod: Claimant, group: SchedulingPodGroup | None, objects: ClaimObjects
) -> str:
    """Return the name of the claim that a group has for an entry, "" = none yet. New pods get it into their status."""
    statuses = (group.status.resource_claim_statuses if group and group.status else None) or ()
    made = next((status.resource_claim_name or "" for status in statuses if status.name == entry.name), "")
    claim = objects.claims.get((pod.namespace, made))
    owner = claim_owner(claim) if claim is not None else None
    return made if owner is not None and (owner.kind, owner.name) == ("PodGroup", pod.group) else ""


def claim_owner(claim: ResourceClaim) -> OwnerReference | None:
    """Return the pod, or the group of pods, for which a claim was made."""
    for owner in (claim.metadata or ObjectMeta()).owner_references or ():
        if owner.controller and owner.kind in ("Pod", "PodGroup"):
            return owner
    return None


def _problem(key: str, claim: ResourceClaim | None, objects: ClaimObjects) -> str:
    if claim is None:
        missing = f"ResourceClaim {key} does not exist"
        return missing if objects.are_known else _unknown(missing)
    if claim.metadata is not None and claim.metadata.deletion_timestamp is not None:
        return f"ResourceClaim {key} is being deleted"
    problem = too_many_devices(claim)
    return f"ResourceClaim {key}: {problem}" if problem else ""


def too_many_devices(claim: ResourceClaim) -> str:
    """Return that a claim has more devices than the API allows, "" = it has not; the API server refuses such claims,
    files may have them."""
    count = len(allocated_results(claim))
    if count <= MOST_RESULTS:
        return ""
    return f"status.allocation.devices.results: there are {count}; the API allows at most {MOST_RESULTS}"


def allocated_results(claim: ResourceClaim) -> Sequence[ResultDevice]:
    """Return the devices of a claim."""
    allocation = claim.status.allocation if claim.status else None
    return (allocation.devices.results if allocation and allocation.devices else None) or ()


def _unknown(missing: str) -> str:
    return f"{missing} in the input, which has no claims of devices; add `{ASKED}`"


def _broken(name: str, claim: ResourceClaim | None) -> str:
    """Return why the spec of a claim that pods share cannot be used; "" if it can."""
    try:
        with below(f"ResourceClaim {name}.spec"):
            if claim is None or claim.spec is None:
                raise FieldError("", _UNREADABLE)
            claim_spec(claim.spec)
    except FieldError as error:
        return str(error)
    return ""


def _template_spec(template: ResourceClaimTemplate | None) -> ResourceClaimSpec | None:
    return template.spec.spec if template and template.spec else None
