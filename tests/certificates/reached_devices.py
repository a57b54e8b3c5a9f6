"""Whether devices that several nodes reach can be given to all pods that claim them, from the snapshot alone.

A pod that is where it was keeps its devices; devices of a pod that has moved are free. Everybody else's devices are
found by trying, over all nodes at once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.certificates.cluster import Cluster, Pod
from tests.certificates.device_claims import DeviceClaims, can_all_have, ints
from trimtab.v1 import snapshot_pb2 as pb

Key = tuple[str, str, str]
"""Driver, pool and name."""
Meets = Callable[[tuple[str, int, tuple[str, ...]], Mapping[str, str]], bool]
"""Returns whether labels meet a requirement: key, operator, values."""


class Reached(NamedTuple):
    """A device, and the selector of its nodes, None = all."""

    content: pb.DeviceContent
    selector: pb.NodeSelector | None


class ReachedDevices:
    """The devices of a snapshot that several nodes reach."""

    def __init__(self, cluster: Cluster, meets: Meets) -> None:
        self._cluster, self._meets = cluster, meets
        self.claims = DeviceClaims(cluster)
        self._devices = self._read(cluster.message.devices)
        self._held = self.claims.held_anywhere() if self._devices else {}

    def offence(self, pod: Pod, node: str, on: Mapping[str, Sequence[Pod]]) -> str:
        """Return why a pod and all others that have a place cannot have what they claim. on : the pods of each node."""
        requests = self._requests(pod)
        if not requests and not self.claims.shared_and_reached([pod]):
            return ""
        if any(not self._eligible(one, node) for one in requests):
            return f"{node} reaches no such device"
        placed = {one.key: (one, at) for at, pods in on.items() for one in pods} | {pod.key: (pod, node)}
        staying = {key for key, (one, at) in placed.items() if one.node == at}
        held = {
            key for owner, keys in self._held.items() for key in keys
            if owner in staying or owner not in self._cluster.pods
        }  # fmt: skip
        wanted = [
            self._eligible(one, at) - held
            for key, (other, at) in placed.items()
            if not (key in staying and key in self._held)
            for one in self._requests(other)
        ]
        wanted += self._shared([one for one, _ in placed.values()], {one.key: at for one, at in placed.values()}, held)
        return "" if can_all_have(wanted) else f"{len(wanted)} devices cannot be given, whoever gets which"

    def _shared(self, pods: Sequence[Pod], node_of: Mapping[str, str], held: set[Key]) -> list[set[Key]]:
        """Return the devices of which claims that pods share want one each: those that all these pods reach."""
        out = []
        for claim, requests in self.claims.shared_and_reached(pods).items():
            at = {node_of[pod.key] for pod in pods if claim in self.claims.shared_and_reached([pod])}
            out += [set.intersection(*(self._eligible(one, node) for node in at)) - held for one in requests]
        return out

    def _requests(self, pod: Pod) -> list[pb.DeviceSubRequest]:
        """Return the request of each device that a pod asks for and no node has of its own."""
        specs = [claim.spec for claim in pod.spec.claims if not claim.shared_claim]
        rows = [request for spec in specs for request in spec.requests]
        found = [(one, count) for row in rows for one in row.alternatives for count in [one.count or 1]]
        return [one for one, count in found if self.claims.is_reached(one) for _ in range(count)]

    def _eligible(self, request: pb.DeviceSubRequest, node: str) -> set[Key]:
        return {
            key
            for key, (content, selector) in self._devices.items()
            if self.claims.is_eligible(request, (key[0], key[2]), content)
            and (selector is None or self._reaches(selector, node))
        }

    def _reaches(self, selector: pb.NodeSelector, node: str) -> bool:
        text, labels = self._cluster.message.devices.strings, self._cluster.node_labels(node)

        def holds(row: pb.LabelRequirement, of: Mapping[str, str]) -> bool:
            return self._meets((text[row.key], row.operator, tuple(text[value] for value in row.values)), of)

        return any(
            (len(term.match_expressions) or len(term.match_fields))
            and all(holds(row, labels) for row in term.match_expressions)
            and all(holds(row, {"metadata.name": node}) for row in term.match_fields)
            for term in selector.terms
        )

    def _read(self, devices: Any) -> dict[Key, Reached]:
        table, found = devices.slices, dict[Key, Reached]()
        columns = [ints(getattr(table, name), table.count) for name in ("node", "driver", "pool", "device_set")]
        selectors = ints(table.node_selector, table.count)
        for at, (node, driver, pool, of) in enumerate(zip(*columns, strict=True)):
            if node == 0 and of and (selectors[at] or table.flags[at] & 1):
                selector = devices.node_selectors[selectors[at] - 1] if selectors[at] else None
                row = devices.device_sets[of - 1]
                for name, content in zip(row.names, row.contents, strict=True):
                    key = devices.strings[driver], devices.strings[pool], devices.strings[name]
                    found[key] = Reached(devices.contents[content], selector)
        return found
