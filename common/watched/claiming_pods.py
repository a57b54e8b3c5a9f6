"""Which pods have claims of devices, by what their claims refer to.

Decides which pods a changed object touches: a claim that is allocated or reserved touches none, as the rows of pods
have its spec alone.

Not thread-safe: `LiveCluster` holds the lock.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from typing import Any

from trimtab.common.objects.devices.extended_resources import extended_requests
from trimtab.common.objects.devices.pod_claims import claim_owner, kubernetes_group
from trimtab.common.objects.pod_rows import PodRow

Key = tuple[str, str]
"""(namespace, name)."""


class ClaimingPods:
    """The pods with claims, by kind and key of the objects that their claims refer to."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, Key], set[Key]] = defaultdict(set)

    def add(self, row: PodRow) -> None:
        """Add a pod with claims."""
        for reference in _references(row):
            self._pods[reference].add((row.namespace, row.name))

    def remove(self, row: PodRow) -> None:
        """Remove a pod with claims."""
        for reference in _references(row):
            pods = self._pods[reference]
            pods.discard((row.namespace, row.name))
            if not pods:
                del self._pods[reference]

    def touched(self, kind: str, key: Key, old: Any, new: Any) -> Set[Key]:
        """Return the pods whose claims have another content after a change of an object."""
        # Pods have a claim of their group before their own status names it.
        references = {(kind, key), *(("PodGroup", (key[0], name)) for name in _groups(kind, old, new))}
        pods = [self._pods[reference] for reference in references if reference in self._pods]
        if not pods or _content(kind, old) == _content(kind, new):
            return frozenset()
        return pods[0] if len(pods) == 1 else pods[0].union(*pods[1:])


def asking_pods(pods: Mapping[Key, PodRow], resources: Set[str]) -> Iterator[Key]:
    """Yield the pods that request one of these extended resources. O(pods)."""
    known: dict[int, bool] = {}
    for key, row in pods.items() if resources else ():
        asks = known.get(id(row.pod))
        if asks is None:
            spec = row.pod.spec
            asks = known[id(row.pod)] = spec is not None and bool(extended_requests(spec, resources.__contains__))
        if asks:
            yield key


def _references(row: PodRow) -> set[tuple[str, Key]]:
    found = set()
    group = kubernetes_group(row.pod)
    for entry in row.claims:
        for kind, name in (
            ("ResourceClaim", entry.claim),
            ("ResourceClaim", entry.made),
            ("ResourceClaimTemplate", entry.template),
            ("PodGroup", group if entry.template else ""),
        ):
            if name:
                found.add((kind, (row.namespace, name)))
    return found


def _groups(kind: str, *claims: Any) -> set[str]:
    """Return the names of the PodGroups for which a claim was made."""
    owners = [claim_owner(claim) for claim in claims if claim is not None] if kind == "ResourceClaim" else []
    return {owner.name or "" for owner in owners if owner is not None and owner.kind == "PodGroup"}


def _content(kind: str, one: Any) -> Any:
    """Return the part of an object that claims of pods follow from; None if it does not exist."""
    if one is None:
        return None
    if kind == "PodGroup":
        return (
            (one.spec and one.spec.resource_claims) or (),
            (one.status and one.status.resource_claim_statuses) or (),
        )
    meta = one.metadata
    return one.spec, meta.deletion_timestamp is None, meta.owner_references
