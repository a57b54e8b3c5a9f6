"""The naive allocator: device after device, every combination, everything looked up again each time.

Reads documents of the device oracle. It is what `planner/devices` must answer, without bits, arrays, memory of
failures and early ends. Selectors are evaluated by the caller. For clusters that the API server accepts, with the
defaults of 1.36 or 1.37; requests for all devices are as in 1.36 (37: with static capacity).
Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating, v0.36.3 and v0.37.2.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from tests.reference.devices.objects import (
    Json,
    amounts,
    attribute,
    consumed,
    is_allowed,
    is_tolerated,
    reaches,
)

MOST_RESULTS, MOST_STEPS = 32, 20_000
Id = tuple[str, str, str]


class Fatal(Exception):
    """The pod gets an error."""


class TooMany(Exception):
    """A claim would have more than 32 devices."""


class GaveUp(Exception):
    """The search takes too long."""


class Found(NamedTuple):
    """A device of a pool that is usable on the node."""

    id: Id
    device: Json
    spec: Json


class Pool(NamedTuple):
    """A pool of the node. problem : "" if it can be used; others : devices for other nodes."""

    problem: str
    devices: list[Found]
    others: list[Found]
    counters: dict[tuple[str, str], Fraction]
    key: tuple[str, ...]


Matches = Callable[[str, str, Json], bool]
"""(expression, driver, device); raises if there is no value."""


def pools_of(document: Json, node: Json, version: int) -> list[Pool]:
    """Return the pools of a node in order."""
    slices = document["slices"]
    relevant: dict[tuple[str, str], list[Json]] = {}
    local = [one for one in slices if one["spec"].get("nodeName") == node["metadata"]["name"]]
    shared = [one for one in slices if not one["spec"].get("nodeName")]
    counting = [one for one in slices if one["spec"].get("sharedCounters") and version < 37]
    local = [one for one in local if one not in counting]
    for one in [*local, *(one for one in slices if one in shared or one in counting)]:
        spec = one["spec"]
        per_device = spec.get("perDeviceNodeSelection")
        at_node = any(reaches(device, node) for device in spec["devices"]) if per_device else reaches(spec, node)
        if not (at_node or one in counting):
            continue
        collected = relevant.setdefault((spec["driver"], spec["pool"]["name"]), [])
        if collected and spec["pool"]["generation"] > collected[0]["spec"]["pool"]["generation"]:
            collected.clear()
        if not collected or spec["pool"]["generation"] == collected[0]["spec"]["pool"]["generation"]:
            collected.append(one)
    made = [(id, pool) for id, found in relevant.items() if (pool := _pool(id, found, slices, version)) is not None]

    def has_conditions(pool: Pool) -> bool:
        return any(one.device.get("bindingConditions") for one in pool.devices)

    return [pool for _, pool in sorted(made, key=lambda one: (has_conditions(one[1]), one[0]))]


def _pool(id: tuple[str, str], found: list[Json], slices: list[Json], version: int) -> Pool | None:
    generation, count = (found[0]["spec"]["pool"][name] for name in ("generation", "resourceSliceCount"))
    key = id if version >= 37 else id[1:]
    rest: list[Json] = []
    if len(found) != count:
        same = [one for one in slices if (one["spec"]["driver"], one["spec"]["pool"]["name"]) == id]
        if any(one["spec"]["pool"]["generation"] > generation for one in same):
            return None
        same = [one for one in same if one["spec"]["pool"]["generation"] == generation]
        if len(same) != count:
            return Pool("incomplete", [], [], {}, key)
        rest = [one for one in same if one not in found]
    found = sorted(found, key=lambda one: str(one["metadata"]["name"]))
    devices, others = list(_devices(found)), list(_devices(rest))
    sources = [*found, *rest] if version >= 37 else found
    sets = [one for source in sources for one in source["spec"].get("sharedCounters", ())]
    counters = {(one["name"], name): value for one in sets for name, value in amounts(one["counters"]).items()}
    names = Counter(one.id for one in devices)
    set_names = Counter(one["name"] for one in sets)
    taken = {pair for one in (*devices, *others) for pair in consumption(one.device)}
    if max([*names.values(), *set_names.values()], default=0) > 1 or taken - counters.keys():
        return Pool("invalid", [], [], {}, key)
    return Pool("", devices, others, counters, key)


def _devices(slices: list[Json]) -> Iterator[Found]:
    for one in slices:
        spec = one["spec"]
        for device in spec.get("devices", ()):
            yield Found((spec["driver"], spec["pool"]["name"], device["name"]), device, spec)


def consumption(device: Json) -> dict[tuple[str, str], Fraction]:
    """Return what a device takes of counters, by set and counter."""
    return {
        (one["counterSet"], name): value
        for one in device.get("consumesCounters") or ()
        for name, value in amounts(one["counters"]).items()
    }


class Allocation:
    """One search on one node."""

    def __init__(self, document: Json, node: Json, claims: list[Json], matches: Matches, version: int) -> None:
        self.node, self.claims, self.matches, self.version = node, claims, matches, version
        self.classes = {one["metadata"]["name"]: one for one in document["classes"]}
        self.pools = pools_of(document, node, version)
        self.held = [one for one in document["allocated"] if not one.get("adminAccess")]
        self.exclusive = {_id(one) for one in self.held if "shareID" not in one}
        self.picks: list[tuple[int, Json, str, Found, dict[str, Fraction] | None, bool]] = []
        """(claim, request, name, device, consumed of a share, counters were charged)."""
        self.first_pools: dict[tuple[str, ...], Pool] = {}
        self.all_devices: dict[tuple[int, str], list[Found]] = {}
        self.rules = [
            [Rule(one, version) for one in claim["spec"]["devices"].get("constraints") or ()] for claim in claims
        ]
        self.steps = 0

    def run(self) -> bool:
        """Return whether there is a solution, which is in `picks`."""
        for number, claim in enumerate(self.claims):
            least = 0
            for request in claim["spec"]["devices"]["requests"]:
                least += min(self.needed(number, name, one) for name, one in variants(request))
            if least > MOST_RESULTS:
                raise Fatal("too many")
        try:
            return not self.claims or self.request(0, 0)
        except TooMany:
            raise Fatal("too many") from None

    def needed(self, claim: int, name: str, request: Json) -> int:
        """Return the number of devices of a request, and note all devices if all are asked for."""
        if request["deviceClassName"] not in self.classes:
            raise Fatal("no class")
        if request["allocationMode"] != "All":
            return int(request["count"])
        if any(pool.problem for pool in self.pools):
            raise Fatal("pool")
        devices = [one for pool in self.pools for one in pool.devices if self.is_selected(request, one)]
        held = self.held_of if self.version < 37 else lambda _id: {}
        self.all_devices[claim, name] = [one for one in devices if self.has_room(request, one, held(one.id))]
        return len(self.all_devices[claim, name])

    def is_selected(self, request: Json, found: Found) -> bool:
        """Return whether the selectors match, and the device is for the node."""
        for source in (self.classes[request["deviceClassName"]]["spec"], request):
            for one in source.get("selectors") or ():
                try:
                    if not self.matches(one["cel"]["expression"], found.id[0], found.device):
                        return False
                except Exception as error:
                    raise Fatal(str(error)) from None
        return not found.spec.get("perDeviceNodeSelection") or reaches(found.device, self.node)

    def held_of(self, id: Id) -> Mapping[str, Fraction]:
        """Return what shares of a device consume, of other claims and of this search."""
        sums: Counter[str] = Counter()
        for one in self.held:
            if _id(one) == id and "shareID" in one:
                sums.update(amounts(one.get("consumedCapacity")))
        for _, _, _, found, taken, _ in self.picks:
            if found.id == id and taken:
                sums.update(taken)
        return sums

    def has_room(self, request: Json, found: Found, held: Mapping[str, Fraction]) -> bool:
        """Return whether the capacities of a device suffice."""
        wanted = (request.get("capacity") or {}).get("requests") or {}
        if wanted.keys() - (found.device.get("capacity") or {}).keys():
            return False
        taken = consumed(request, found.device)
        values = amounts(found.device.get("capacity"))
        is_enough = all(held.get(name, 0) + taken[name] <= values[name] for name in taken)
        return is_enough and is_allowed(taken, found.device)

    def request(self, claim: int, at: int) -> bool:
        """Find devices for a request and all that follows."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise GaveUp
        requests = self.claims[claim]["spec"]["devices"]["requests"]
        if at == len(requests):
            if claim + 1 == len(self.claims):
                return True
            try:
                return self.request(claim + 1, 0)
            except TooMany:
                return False
        if "firstAvailable" not in requests[at]:
            return self.devices(claim, at, requests[at]["name"], requests[at]["exactly"], 0, 0)
        exceeded = True
        for name, one in variants(requests[at]):
            try:
                if self.devices(claim, at, name, one, 0, 0):
                    return True
            except TooMany:
                continue
            exceeded = False
        if exceeded:
            raise TooMany
        return False

    def devices(self, claim: int, at: int, name: str, request: Json, got: int, start: int) -> bool:
        """Find the devices of a request from number `got` on; candidates begin at `start`."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise GaveUp
        everything = self.all_devices.get((claim, name))
        needed = len(everything) if everything is not None else int(request["count"])
        if everything is not None and not everything:
            return False
        if got >= needed:
            return self.request(claim, at + 1)
        if sum(one[0] == claim for one in self.picks) + needed - got > MOST_RESULTS:
            raise TooMany
        if everything is not None:
            found = everything[got]
            return self.take(claim, name, request, found, must=True) and self.go_on(claim, at, name, request, got, 0)
        candidates = [one for pool in self.pools if not pool.problem for one in pool.devices]
        for place in range(start, len(candidates)):
            found = candidates[place]
            if self.is_busy(claim, request, found) or not self.is_selected(request, found):
                continue
            if not self.has_room(request, found, self.held_of(found.id)):
                continue
            taken = self.take(claim, name, request, found, must=False)
            if taken and self.go_on(claim, at, name, request, got, place + 1):
                return True
        return False

    def go_on(self, claim: int, at: int, name: str, request: Json, got: int, start: int) -> bool:
        """Find the rest; take back the last device if there is none."""
        count = len(self.picks) - 1
        found = False
        try:
            found = self.devices(claim, at, name, request, got + 1, start)
        finally:
            if not found:
                del self.picks[count:]
                for rule in self.rules[claim]:
                    rule.remove(name)
        return found

    def is_busy(self, claim: int, request: Json, found: Found) -> bool:
        """Return whether a device is in use, for admin access in the claim itself."""
        mine = [one for one in self.picks if one[3].id == found.id and one[4] is None]
        if request.get("adminAccess"):
            return any(one[0] == claim for one in mine)
        return found.id in self.exclusive or bool(mine)

    def take(self, claim: int, name: str, request: Json, found: Found, must: bool) -> bool:
        """Take a device if counters, taints and constraints allow."""
        shared = bool(found.device.get("allowMultipleAllocations"))
        if self.is_busy(claim, request, found):
            return False
        charged = bool(consumption(found.device)) and not (shared and self.is_charged(found.id))
        if charged and not self.fits_counters(found):
            return False
        if not is_tolerated(found.device, request):
            return False
        if not self.keeps_constraints(claim, name, found):
            if must:
                raise Fatal("constraint")
            return False
        if must and not self.has_room(request, found, self.held_of(found.id)):
            for rule in self.rules[claim]:
                rule.remove(name)
            return False
        self.picks.append((claim, request, name, found, consumed(request, found.device) if shared else None, charged))
        return True

    def is_charged(self, id: Id) -> bool:
        """Return whether a share of a device is known to be in use."""
        before = [one for one in self.held if _id(one) == id and "shareID" in one]
        known = any(one.get("consumedCapacity") or self.version >= 37 for one in before)
        return known or any(one[3].id == id and one[4] is not None for one in self.picks)

    def fits_counters(self, found: Found) -> bool:
        """Return whether no counter is exceeded with a device more."""
        (pool,) = (one for one in self.pools if any(other is found for other in one.devices))
        first = self.first_pools.setdefault(pool.key, pool)
        left = dict(first.counters)
        used = {_id(one) for one in self.held}
        counted = [one.device for one in (*first.devices, *first.others) if one.id in used]
        for _, _, _, taken, _, charged in self.picks:
            if charged and pool.key == (taken.id[:2] if self.version >= 37 else taken.id[1:2]):
                counted.append(taken.device)
        for device in (*counted, found.device):
            for pair, value in consumption(device).items():
                if pair in left:
                    left[pair] -= value
        return all(value >= 0 for value in left.values())

    def keeps_constraints(self, claim: int, name: str, found: Found) -> bool:
        """Add a device to the constraints of a claim; return whether they allow it, and take it back if not."""
        for number, rule in enumerate(self.rules[claim]):
            if not rule.add(name, found):
                for one in self.rules[claim][:number]:
                    one.remove(name)
                return False
        return True


class Rule:
    """A constraint. values : (request, value) of the devices that count, the last one at the end."""

    def __init__(self, constraint: Json, version: int) -> None:
        self.names = constraint.get("requests") or ()
        self.is_match = "matchAttribute" in constraint
        self.attribute = constraint["matchAttribute" if self.is_match else "distinctAttribute"]
        self.forgets = not self.is_match and version < 37
        self.values: list[tuple[str, Any]] = []

    def concerns(self, name: str) -> bool:
        """Return whether it counts devices of a request."""
        return not self.names or name in self.names or name.partition("/")[0] in self.names

    def add(self, name: str, found: Found) -> bool:
        """Add a device, if allowed."""
        if not self.concerns(name):
            return True
        value = attribute(found.device, found.id[0], self.attribute)
        known = [one for _, one in self.values]
        if value is None or (self.is_match and known and known[0] != value) or (not self.is_match and value in known):
            return False
        if self.forgets:
            # Up to 1.36 a request remembers its last value only.
            self.remove(name)
        self.values.append((name.partition("/")[0], value))
        return True

    def remove(self, name: str) -> None:
        """Take the last device of a request back; with it the request forgets everything, where it remembers only
        one.
        """
        if not self.concerns(name):
            return
        if self.forgets:
            self.values = [one for one in self.values if one[0] != name.partition("/")[0]]
        else:
            self.values.pop()


def variants(request: Json) -> list[tuple[str, Json]]:
    """Return name and content of a request, or of its alternatives."""
    if "firstAvailable" in request:
        return [(f"{request['name']}/{one['name']}", one) for one in request["firstAvailable"]]
    return [(request["name"], request["exactly"])]


def _id(result: Json) -> Id:
    return (result["driver"], result["pool"], result["device"])


def allocate(document: Json, node: Json, claims: list[Json], matches: Matches, version: int) -> Any:
    """Return [(claim, request, driver, pool, device)], None without devices, or "error" or "gave up"."""
    try:
        search = Allocation(document, node, claims, matches, version)
        if not search.run():
            return None
    except Fatal:
        return "error"
    except GaveUp:
        return "gave up"
    return [(claim, name, *found.id) for claim, _, name, found, _, _ in search.picks]
