"""Whether the devices that pods of a node claim can be given to all of them, from the snapshot alone.

Claims of devices of a node's own pools, one of each driver, of classes whose selectors compare the driver or an
attribute with a text; `devices_left` says what they may ask for. A pod that is where it was keeps its devices; devices
of a pod that has gone are free. Everybody else's devices are found by trying, whatever the order in which the scheduler
would look at them.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, chain, pairwise
from typing import NamedTuple, TypeVar

from tests.certificates.cluster import Cluster, Pod
from tests.certificates.device_objects import amount
from tests.certificates.devices_left import (
    Alternative,
    Device,
    DevicesLeft,
    Wanted,
    amounts_taken,
    attribute_of,
    counters_of,
    is_tolerated,
)
from trimtab.v1 import snapshot_pb2 as pb

T = TypeVar("T")
_BY_DRIVER = re.compile(r'device\.driver == "([^"]*)"')
_BY_ATTRIBUTE = re.compile(r'device\.attributes\["([^"]*)"\]\.(\w+) == "([^"]*)"')


class Held(NamedTuple):
    """A device in use. owner : pod, "" = nobody; consumed : what a share takes of each capacity."""

    owner: str
    device: Device
    consumed: Mapping[str, Fraction]


class DeviceClaims:
    """The devices and claims of a snapshot."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._devices = cluster, cluster.message.devices
        self._text = self._devices.strings

    def offence(self, there: list[Pod], node: str) -> str:
        """Return why the pods of a node cannot all have what they claim, "" = they can."""
        claiming = [pod for pod in there if pod.spec.claims or self.extended(pod, node)]
        if not claiming:
            return ""
        published = self._published(node)
        staying = {pod.key for pod in claiming if pod.node == node}
        present = {pod.key for pod in there}
        kept = [
            one for one in self._held(node)
            if one.owner in staying or one.owner not in self._cluster.pods or one.owner in present
        ]  # fmt: skip
        having = {one.owner for one in self._held(node)}
        own = [
            ((pod.key, claim.name), claim.spec)
            for pod in claiming
            if pod.key not in having
            for claim in pod.spec.claims
            if not claim.shared_claim
        ]
        own += [
            ((pod.key, ""), pb.DeviceClaimSpec(requests=self.extended(pod, node)))
            for pod in claiming
            if pod.key not in having
        ]
        wanted = [
            Wanted(key, self._alternatives(request, published), request.admin_access, spec.constraints)
            for key, spec in (*own, *self._shared_specs(claiming, node))
            for request in spec.requests
            if not all(map(self.is_reached, request.alternatives))
        ]
        left = self._left(node, published, kept)
        picks = [one.alternatives[0].picks for one in wanted if len(one.alternatives) == 1]
        is_plain = not any(map(_is_measured, published.values())) and len(picks) == len(wanted)
        if is_plain and not any(one.is_admin or one.constraints for one in wanted):
            single = [of.keys() - left.taken for of in chain.from_iterable(picks)]
            return "" if can_all_have(single) else f"{len(single)} devices cannot be given on {node}"
        return "" if left.can_give(wanted) else f"{len(wanted)} requests cannot be served on {node}"

    def extended(self, pod: Pod, node: str) -> list[pb.DeviceRequest]:
        """Return the requests of a pod's extended resources that only devices can serve on a node."""
        found, here = [], self._cluster.amounts(node)
        for one in pod.spec.extended_device_requests:
            classes = [of for of in self._devices.classes if of.extended_resource_name == one.resource]
            if classes and not here.get(one.resource):
                newest = min(classes, key=lambda of: (-of.create_time.ToNanoseconds(), of.name)).name
                wanted = pb.DeviceSubRequest(device_class=newest, count=one.count)
                found.append(pb.DeviceRequest(name=one.name, alternatives=[wanted]))
        return found

    def _left(self, node: str, published: Mapping[Device, pb.DeviceContent], kept: Iterable[Held]) -> DevicesLeft:
        """Return what is left of a node's devices."""
        left = DevicesLeft(published, self._counters(node), self._devices.kubernetes_minor or 37)
        for one in kept:
            if one.device in published:
                left.take(one.device, one.consumed)
        return left

    def _alternatives(
        self, request: pb.DeviceRequest, published: Mapping[Device, pb.DeviceContent]
    ) -> list[Alternative]:
        """Return the ways to serve a request."""
        found = []
        for one in request.alternatives:
            eligible = {
                device: amounts_taken(one, content) or {}
                for device, content in published.items()
                if self.is_eligible(one, device, content)
            }
            picks: list[dict[Device, dict[str, Fraction]]] = [eligible] * (one.count or 1)
            if one.mode == pb.DeviceAllocationMode.ALL:
                # One more than there is, if there is none or one is tainted, so that it is missed.
                tainted = any(self._matches(one, *of) and not is_tolerated(of[1], one) for of in published.items())
                picks = [{device: amounts} for device, amounts in sorted(eligible.items()) if not tainted] or [{}]
            name = f"{request.name}/{one.name}" if request.first_available else request.name
            found.append(Alternative(name, picks))
        return found

    def _counters(self, node: str) -> dict[tuple[str, str, str], Fraction]:
        """Return the counters of a node, by driver, set and name; of a new one, those of another of its group."""
        if node not in self._cluster.message_nodes():
            group = self._cluster.nodes[node].node_group
            for declared in self._devices.templates:
                if declared.node_group == group:
                    used = [(one.driver, one.counter_set) for one in declared.slices if one.counter_set]
                    return dict(chain.from_iterable(self._counters_of(*one) for one in used))
            members = [name for name, row in self._cluster.message_nodes().items() if row.node_group == group]
            node = max(members, key=lambda name: len(self._of_node.get(name, {})), default="")
        table = self._devices.slices
        nodes, drivers, sets = (ints(getattr(table, name), table.count) for name in ("node", "driver", "counter_set"))
        found = [
            self._counters_of(self._text[drivers[at]], sets[at])
            for at in range(table.count)
            if sets[at] and self._text[nodes[at]] == node
        ]
        return dict(chain.from_iterable(found))

    def _counters_of(self, driver: str, number: int) -> Iterator[tuple[tuple[str, str, str], Fraction]]:
        """Yield the counters of a slice. number : of its sets, plus 1."""
        for key, value in counters_of(self._devices.counter_sets[number - 1].sets).items():
            yield (driver, *key), value

    def problem(self, pod: Pod) -> str:
        """Return why a claim of a pod cannot be used."""
        classes = {one.name for one in self._devices.classes}
        for claim in pod.spec.claims:
            missing = {one.device_class for request in claim.spec.requests for one in request.alternatives} - classes
            if claim.problem or missing:
                return claim.problem or f"classes {sorted(missing)} are missing"
        return ""

    def elsewhere(self, pod: Pod, node: str, on: Mapping[str, Sequence[Pod]]) -> str:
        """Return why the devices of a claim that pods share cannot be reached. on : the pods of each node."""
        for claim in pod.spec.claims:
            key = pod.namespace, claim.shared_claim
            if not claim.shared_claim:
                continue
            users = self._users.get(key, set())
            there = {name for name, pods in on.items() if any(one.key in users for one in pods)} - {node}
            allocated, at = self._allocated.get(key, (False, ""))
            if allocated and at != node and at and (at in there or self._consumers.get(key, set()) - users):
                return f"claim {claim.shared_claim} has devices of {at}"
            if there and not (allocated and not at) and key not in self.shared_and_reached([pod]):
                return f"other pods of claim {claim.shared_claim} are on {sorted(there)}"
        return ""

    def shared_and_reached(self, pods: Iterable[Pod]) -> dict[tuple[str, str], list[pb.DeviceSubRequest]]:
        """Return the request of each device of the claims without devices that pods share, by claim, where only devices
        that several nodes reach are eligible for all of them."""
        found = {}
        for key, spec in {
            (pod.namespace, one.shared_claim): one.spec for pod in pods for one in pod.spec.claims
        }.items():
            if not key[1] or self._allocated.get(key, (False, ""))[0]:
                continue
            row = self._named.get(key)
            wanted = spec if row is None else self._devices.claim_specs[self._claim_spec[row]]
            of = [one for request in wanted.requests for one in request.alternatives for _ in range(one.count or 1)]
            if of and all(map(self.is_reached, of)):
                found[key] = of
        return found

    @cached_property
    def _users(self) -> dict[tuple[str, str], set[str]]:
        """The pods of each claim that they may share; those that have ended do not count."""
        found: dict[tuple[str, str], set[str]] = {}
        for pod in self._cluster.pods.values():
            for claim in pod.spec.claims if not pod.ended else ():
                if claim.shared_claim:
                    found.setdefault((pod.namespace, claim.shared_claim), set()).add(pod.key)
        return found

    def _published(self, node: str) -> dict[Device, pb.DeviceContent]:
        """Return the devices of a node's complete pools; of a new node, those that its group's nodes have."""
        if node in self._cluster.message_nodes():
            return self._of_node.get(node, {})
        return self._of_new_node(self._cluster.nodes[node].node_group)

    def of_class(self, name: str, node: str = "", group: str = "") -> int:
        """Return how many devices of a class a node has, or a new node of a group."""
        request = pb.DeviceSubRequest(device_class=name)
        published = self._published(node) if node else self._of_new_node(group)
        return sum(self.is_eligible(request, *one) for one in published.items())

    def _of_new_node(self, group: str) -> dict[Device, pb.DeviceContent]:
        """Return the devices that a group declares, or those that its nodes have."""
        for declared in self._devices.templates:
            if declared.node_group == group:
                return {
                    (one.driver, self._text[name]): self._devices.contents[content]
                    for one in declared.slices
                    if one.device_set
                    for name, content in self._entries(one.device_set - 1)
                }
        members = [name for name, row in self._cluster.message_nodes().items() if row.node_group == group]
        return max((self._of_node.get(name, {}) for name in members), key=len, default={})

    @cached_property
    def _of_node(self) -> dict[str, dict[Device, pb.DeviceContent]]:
        table, found = self._devices.slices, dict[str, dict[Device, pb.DeviceContent]]()
        nodes, drivers, sets = (ints(getattr(table, name), table.count) for name in ("node", "driver", "device_set"))
        pools, counts = ints(table.pool, table.count), _longs(table.slice_count)
        of_pool = [(drivers[at], pools[at]) for at in range(table.count)]
        for at in range(table.count):
            if of_pool.count(of_pool[at]) == counts[at] and sets[at]:
                devices = found.setdefault(self._text[nodes[at]], {})
                for name, content in self._entries(sets[at] - 1):
                    devices[self._text[drivers[at]], self._text[name]] = self._devices.contents[content]
        return found

    def _entries(self, device_set: int) -> Iterator[tuple[int, int]]:
        one = self._devices.device_sets[device_set]
        return zip(one.names, one.contents, strict=True)

    def held_anywhere(self) -> dict[str, set[tuple[str, str, str]]]:
        """Return the devices that each pod holds, by driver, pool and name; those of claims of no pod under ""."""
        found: dict[str, set[tuple[str, str, str]]] = {}
        for pool, held in self._held_by_node.items():
            for owner, (driver, name), _ in held:
                found.setdefault(owner, set()).add((driver, pool, name))
        return found

    def is_reached(self, request: pb.DeviceSubRequest) -> bool:
        """Return whether only devices that several nodes reach are eligible for a request."""
        by_node = {
            bool(node)
            for node, of in self._of_node.items()
            if any(self.is_eligible(request, *one) for one in of.items())
        }
        return by_node == {False}

    def _held(self, node: str) -> list[Held]:
        """Return the devices in use on a node."""
        return self._held_by_node.get(node, [])

    @cached_property
    def _held_by_node(self) -> dict[str, list[Held]]:
        claims, found = self._devices.claims, dict[str, list[Held]]()
        owners = self._texts(claims.pods, claims.pod_lengths, claims.count)
        namespace = ints(claims.namespace, claims.count)
        rows = ints(claims.result_claim, len(claims.result_flags))
        columns = [ints(getattr(claims, f"result_{name}"), len(rows)) for name in ("driver", "pool", "device")]
        consumed: dict[int, dict[str, Fraction]] = {}
        of_amounts = [ints(getattr(claims, f"capacity_{name}"), -1) for name in ("result", "name", "amount")]
        for result, name, quantity in zip(*of_amounts, strict=True):
            consumed.setdefault(result, {})[self._text[name]] = amount(self._text[quantity])
        for at, row in enumerate(rows):
            driver, pool, name = (self._text[column[at]] for column in columns)
            if not claims.result_flags[at] & 1:
                key = f"{self._text[namespace[row]]}/{owners[row]}" if owners[row] else ""
                found.setdefault(pool, []).append(Held(key, (driver, name), consumed.get(at, {})))
        return found

    @cached_property
    def _named(self) -> dict[tuple[str, str], int]:
        """The rows of claims, by namespace and name."""
        claims = self._devices.claims
        names = self._texts(claims.names, claims.name_lengths, claims.count)
        spaces = ints(claims.namespace, claims.count)
        return {(self._text[space], name): row for row, (space, name) in enumerate(zip(spaces, names, strict=True))}

    @cached_property
    def _allocated(self) -> dict[tuple[str, str], tuple[bool, str]]:
        """Whether claims have devices, and the only node that reaches these, "" = there are several."""
        claims = self._devices.claims
        nodes = ints(claims.node, claims.count)
        return {
            key: (bool(claims.flags and claims.flags[row] & 1), self._text[nodes[row]])
            for key, row in self._named.items()
        }

    @cached_property
    def _consumers(self) -> dict[tuple[str, str], set[str]]:
        """For whom claims are reserved, as keys of pods."""
        claims, found = self._devices.claims, dict[tuple[str, str], set[str]]()
        rows = ints(claims.consumer_claim, len(claims.consumer_claim) // 4)
        key_of = {row: key for key, row in self._named.items()}
        for row, name in zip(rows, self._texts(claims.consumers, claims.consumer_lengths, len(rows)), strict=True):
            found.setdefault(key_of[row], set()).add(f"{key_of[row][0]}/{name}")
        return found

    def _shared_specs(self, pods: Iterable[Pod], node: str) -> Iterator[tuple[tuple[str, str], pb.DeviceClaimSpec]]:
        """Yield what claims of several pods on a node ask for: once for all pods."""
        specs = {(pod.namespace, claim.shared_claim): claim.spec for pod in pods for claim in pod.spec.claims}
        for key, spec in specs.items():
            allocated, at = self._allocated.get(key, (False, ""))
            if key[1] and not (allocated and at in {"", node}):
                row = self._named.get(key)
                yield key, spec if row is None else self._devices.claim_specs[self._claim_spec[row]]

    @cached_property
    def _claim_spec(self) -> list[int]:
        return ints(self._devices.claims.spec, self._devices.claims.count)

    def _texts(self, data: bytes, lengths: bytes, count: int) -> list[str]:
        bounds = [0, *accumulate(ints(lengths, count))]
        return [data[first:last].decode() for first, last in pairwise(bounds)]

    def is_eligible(self, request: pb.DeviceSubRequest, device: Device, content: pb.DeviceContent) -> bool:
        """Return whether a request may get a device."""
        return is_tolerated(content, request) and self._matches(request, device, content)

    def _matches(self, request: pb.DeviceSubRequest, device: Device, content: pb.DeviceContent) -> bool:
        """Return whether a device is what a request asks for."""
        if amounts_taken(request, content) is None:
            return False
        (found,) = (one for one in self._devices.classes if one.name == request.device_class)
        return all(_holds(text, device[0], content) for text in (*found.selectors, *request.selectors))


def _holds(expression: str, driver: str, content: pb.DeviceContent) -> bool:
    if match := _BY_DRIVER.fullmatch(expression):
        return match[1] == driver
    match = _BY_ATTRIBUTE.fullmatch(expression)
    assert match is not None, f"{expression} is none of the certificate's"
    return bool(attribute_of(content, driver, f"{match[1]}/{match[2]}") == ("string_value", match[3]))


def sharing(pod: Pod, pods: Iterable[Pod], placed: Collection[str]) -> list[Pod]:
    """Return the pods without a place that share a claim with one: what keeps one of them out keeps all out."""
    shared = {one.shared_claim for one in pod.spec.claims if one.shared_claim}
    return [
        other
        for other in pods
        if other.key not in {pod.key, *placed}
        and other.namespace == pod.namespace
        and shared & {one.shared_claim for one in other.spec.claims}
    ]


def can_all_have(wanted: Sequence[set[T]]) -> bool:
    """Return whether each can have another device: augmenting paths."""
    holder: dict[T, int] = {}

    def gives(at: int, tried: set[Device]) -> bool:
        for device in wanted[at] - tried:
            tried.add(device)
            if device not in holder or gives(holder[device], tried):
                holder[device] = at
                return True
        return False

    return all(gives(at, set()) for at in range(len(wanted)))


def _is_measured(content: pb.DeviceContent) -> bool:
    return content.allow_multiple_allocations or bool(content.consumed_counters)


def ints(data: bytes, count: int) -> list[int]:
    """Return a column of 32 bits, zeros if it is empty."""
    if not data:
        return [0] * max(count, 0)
    return [int.from_bytes(data[at : at + 4], "little", signed=True) for at in range(0, len(data), 4)]


def _longs(data: bytes) -> list[int]:
    return [int.from_bytes(data[at : at + 8], "little", signed=True) for at in range(0, len(data), 8)]
