"""The search for devices of a pod's claims on one node: the first full solution, in the order of the scheduler's
search.

Depth first, with backtracking: claims, requests and alternatives in order, devices in the order of the pools; a
request's devices are tried as combinations, not as permutations. Bits stand for the devices of a pool, by position.

Three things are left out, as they cannot change the answer: devices when fewer are left than the request needs, what is
asked for where the same devices were taken in vain before, and a
device like one that has just led to no solution. There is no clock: instead of the scheduler's time limit of 10 s
there is a limit on steps, at which the node is refused.
Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating, allocateOne and allocateDevice, v0.36.3.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from trimtab.planner.devices.capacity import CapacityError, consumed_capacity, fits_capacity
from trimtab.planner.devices.constraints import AttributeRule
from trimtab.planner.devices.demands import DemandGroup, DeviceDemand, PreparedClaims, raise_if
from trimtab.planner.devices.eligibility import Eligibility, EligibleDevices, input_error
from trimtab.planner.devices.model import (
    RESULTS_PER_CLAIM,
    AllocatedState,
    DeviceContent,
    DeviceError,
    DeviceFeatures,
    DeviceInputError,
    DeviceNode,
    PoolId,
)
from trimtab.planner.devices.pool_view import NO_USE, CounterGroup, PoolView, each_bit
from trimtab.planner.devices.pools import DevicePool

MOST_STEPS = 20_000
"""Steps of a search until the node is refused; a step takes about 5 µs, and a common search a step for each device."""
MOST_DEVICES = 200
"""Devices that a search can take; the pod is refused where it asks for more. Bounds the depth of the search."""


class TooManyResultsError(Exception):
    """Raised inside a search where a claim would get more devices than it may have."""


class StepLimitError(Exception):
    """Raised inside a search that takes too long."""


@dataclass(slots=True)
class Pick:
    """A device taken for a demand: by pool and position. consumed : None of a device that is given away whole."""

    demand: DeviceDemand
    pool: int
    position: int
    consumed: dict[str, int] | None


class DevicePlace(NamedTuple):
    """A position in the order of devices."""

    pool: int
    position: int


START = DevicePlace(0, 0)


class DeviceSearch:
    """One search; `run` may be called once."""

    def __init__(
        self,
        claims: PreparedClaims,
        node: DeviceNode,
        pools: tuple[DevicePool, ...],
        state: AllocatedState,
        eligibility: Eligibility,
        features: DeviceFeatures,
    ) -> None:
        self._claims = claims
        self._features = features
        self._eligibility = eligibility
        count = len(claims.claims)
        self.views = [PoolView(pool, state.pools.get(pool.id, NO_USE), node, count, features) for pool in pools]
        self._shared_groups: list[CounterGroup] = []
        self._group_counters(state)
        self.picks: list[list[Pick]] = [[] for _ in claims.claims]
        self._needed: dict[int, int] = {}
        self._all: dict[int, list[DevicePlace]] = {}
        self._rules: list[tuple[AttributeRule, ...]] = []
        self._hopeless: set[Hashable] = set()
        self._steps = 0
        self._most = 0
        self.failures: dict[tuple[int, int, int], tuple[int, ...]] = {}
        """(claim, request, alternative) of the request that was not got over: to the devices taken then, by pool."""
        self.exceeded = False

    def run(self) -> bool:
        """Return whether there is a solution, which is in `picks`. Raises DeviceInputError and StepLimitError."""
        for claim in range(len(self.picks)):
            self._validate(claim)
        if self._most > MOST_DEVICES:
            raise StepLimitError
        if not self.picks:
            return True
        try:
            return self._request(0, 0)
        except TooManyResultsError:
            raise self._error(0, "requests", "allocation max size exceeded") from None

    def _error(self, claim: int, field: str, text: str) -> DeviceInputError:
        name = self._claims.claims[claim].name
        return DeviceInputError(DeviceError(f"ResourceClaim {name}", f"spec.devices.{field}", text))

    def _group_counters(self, state: AllocatedState) -> None:
        by_name = not self._features.behavior.separates_pools
        groups: dict[PoolId, list[PoolView]] = {}
        for view in self.views:
            if view.pool.table.consumes_counters and self._features.partitionable_devices:
                id = view.pool.id
                groups.setdefault(PoolId("", id.pool) if by_name else id, []).append(view)
        for views in groups.values():
            group = CounterGroup(state)
            if len(views) > 1:
                self._shared_groups.append(group)
            for view in views:
                view.counters = group

    def _validate(self, claim: int) -> None:
        least = 0
        for group in self._claims.groups[claim]:
            raise_if(group.error)
            needed = [self._needed_by(claim, demand) for demand in group.demands]
            least += min(needed)
            self._most += min(max(needed), RESULTS_PER_CLAIM) + 1
        if least > RESULTS_PER_CLAIM:
            text = f"number of requested devices {least} exceeds the claim limit of {RESULTS_PER_CLAIM}"
            raise self._error(claim, "requests", text)
        raise_if(self._claims.constraint_errors[claim])
        constraints = self._claims.claims[claim].constraints
        self._rules.append(tuple([AttributeRule(constraint, self._features.behavior) for constraint in constraints]))

    def _needed_by(self, claim: int, demand: DeviceDemand) -> int:
        raise_if(demand.error)
        if not demand.takes_all:
            self._needed[id(demand)] = demand.spec.count
            return demand.spec.count
        places = list(self._all_places(claim, demand))
        self._all[id(demand)] = places
        self._needed[id(demand)] = len(places)
        return len(places)

    def _all_places(self, claim: int, demand: DeviceDemand) -> Iterator[DevicePlace]:
        for at, view in enumerate(self.views):
            pool = view.pool
            if pool.problem is not None:
                text = f"asks for all devices, but resource pool {pool.id.driver}/{pool.id.pool} is {pool.problem}"
                raise self._error(claim, f"requests[{demand.name}].allocationMode", text)
            eligible = self.eligible(at, demand)
            errors = eligible.problem_bits | sum(view.node_errors)
            for bit in each_bit((eligible.matching & eligible.large_enough) | errors):
                self._check(claim, demand, at, bit)
                position = bit.bit_length() - 1
                if view.here & bit and (
                    self._features.behavior.counts_devices_in_use or self._has_room(at, position, demand)
                ):
                    yield DevicePlace(at, position)

    def eligible(self, at: int, demand: DeviceDemand) -> EligibleDevices:
        """Return which devices of a pool a demand may get."""
        assert demand.device_class is not None
        pool = self.views[at].pool
        return self._eligibility.of(pool.table, pool.id.driver, demand.device_class, demand.spec)

    def _check(self, claim: int, demand: DeviceDemand, at: int, bit: int) -> None:
        """Raise the error of a device that has one."""
        eligible = self.eligible(at, demand)
        if eligible.problem_bits & bit:
            name = self._claims.claims[claim].name
            raise input_error(eligible.problem_at(bit), name, demand.name, demand.spec.device_class)
        if eligible.matching & bit:
            raise_if(self.views[at].node_errors.get(bit))

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise StepLimitError

    def _request(self, claim: int, at: int) -> bool:
        self._step()
        if at == len(self._claims.groups[claim]):
            if claim + 1 == len(self.picks):
                return True
            try:
                return self._request(claim + 1, 0)
            except TooManyResultsError:
                self.exceeded = True
                return False
        situation = self._situation(claim, at)
        if situation in self._hopeless:
            return False
        group = self._claims.groups[claim][at]
        if group.has_alternatives:
            is_served = self._alternatives(claim, at, group)
        else:
            is_served = self._devices(claim, at, 0, 0, START)
        if not is_served and situation is not None:
            self._hopeless.add(situation)
        return is_served

    def _situation(self, claim: int, at: int) -> Hashable | None:
        """Return all that the rest of the search depends on, if that is only which devices are taken."""
        if (at and self._rules[claim]) or not self._may_skip or any(view.shares for view in self.views):
            return None
        return claim, at, len(self.picks[claim]), *((view.taken, view.taken_by[claim]) for view in self.views)

    def _alternatives(self, claim: int, at: int, group: DemandGroup) -> bool:
        all_exceeded = True
        for alternative in range(len(group.demands)):
            try:
                is_served = self._devices(claim, at, alternative, 0, START)
            except TooManyResultsError:
                continue
            all_exceeded = False
            if is_served:
                return True
        if all_exceeded:
            raise TooManyResultsError
        return False

    def _devices(self, claim: int, at: int, alternative: int, got: int, start: DevicePlace) -> bool:
        """Take the devices of a demand from the one with number `got` on, and all that follows."""
        self._step()
        demand = self._claims.groups[claim][at].demands[alternative]
        needed = self._needed[id(demand)]
        if demand.takes_all and not needed:
            self._note(claim, at, alternative)
            return False
        if got >= needed:
            return self._request(claim, at + 1)
        if len(self.picks[claim]) + needed - got > RESULTS_PER_CLAIM:
            raise TooManyResultsError
        is_served = False
        if demand.takes_all:
            place = self._all[id(demand)][got]
            is_served = self._is_free(claim, demand, place) and self._try(claim, at, alternative, got, place)
        else:
            is_served = self._any_devices(claim, at, alternative, got, start)
        if not is_served:
            self._note(claim, at, alternative)
        return is_served

    def _any_devices(self, claim: int, at: int, alternative: int, got: int, start: DevicePlace) -> bool:
        demand = self._claims.groups[claim][at].demands[alternative]
        candidates = [self._candidates(claim, demand, pool) for pool in range(start.pool, len(self.views))]
        if candidates:
            candidates[0] = candidates[0] >> start.position << start.position
        needed = self._needed[id(demand)] - got
        free_count = sum(free_bits.bit_count() for free_bits in candidates)
        if free_count < needed and self._may_skip and not self._has_errors(demand, start.pool, candidates):
            return False
        for pool, bits in enumerate(candidates, start=start.pool):
            # Groups of equal devices of which one was tried in vain.
            tried: set[int] = set()
            table = self.views[pool].pool.table
            for bit in each_bit(bits):
                self._check(claim, demand, pool, bit)
                position = bit.bit_length() - 1
                group = table.group_of[position]
                if group in tried:
                    continue
                if self._has_room(pool, position, demand) and self._try(
                    claim, at, alternative, got, DevicePlace(pool, position)
                ):
                    return True
                if self._may_skip and not demand.has_admin_access and not self._is_shared(pool, position):
                    tried.add(group)
        return False

    def _candidates(self, claim: int, demand: DeviceDemand, at: int) -> int:
        view = self.views[at]
        if view.pool.problem is not None:
            return 0
        eligible = self.eligible(at, demand)
        free = view.taken_by[claim] if demand.has_admin_access else view.in_use | view.taken
        usable = self._usable(eligible) & view.here
        errors = eligible.problem_bits
        for bit in view.node_errors:
            errors |= bit & eligible.matching
        return (usable | errors) & ~free

    @property
    def _may_skip(self) -> bool:
        """Whether leaving out a device changes nothing but itself: until a counter is looked at, which of several pools
        that share counters comes first decides what is left in all of them.
        """
        return all(group.is_open for group in self._shared_groups)

    def _usable(self, eligible: EligibleDevices) -> int:
        return eligible.usable if self._may_skip else eligible.matching & eligible.large_enough

    def _has_errors(self, demand: DeviceDemand, first: int, candidates: list[int]) -> bool:
        return any(
            bits and (self.views[at].node_errors or self.eligible(at, demand).problem_bits & bits)
            for at, bits in enumerate(candidates, start=first)
        )

    def _is_free(self, claim: int, demand: DeviceDemand, place: DevicePlace) -> bool:
        """Return whether a device of a request for all is still free, and nothing else keeps the request from it."""
        view, bit = self.views[place.pool], 1 << place.position
        busy = view.taken_by[claim] if demand.has_admin_access else view.in_use | view.taken
        return not busy & bit and bool(self._usable(self.eligible(place.pool, demand)) & bit)

    def _is_shared(self, at: int, position: int) -> bool:
        view = self.views[at]
        return view.pool.table.contents[position].allow_multiple_allocations or bool(view.consumed(position))

    def _is_multiple(self, content: DeviceContent) -> bool:
        return self._features.consumable_capacity and content.allow_multiple_allocations

    def _has_room(self, at: int, position: int, demand: DeviceDemand) -> bool:
        """Return whether enough of a device's capacities is left, if shares of it are given away."""
        view = self.views[at]
        if not self._features.consumable_capacity:
            return True
        held = view.consumed(position)
        if not held:
            return True
        capacities = view.pool.table.contents[position].capacities
        return fits_capacity(demand.spec.capacity, capacities, held, self._features)

    def _try(self, claim: int, at: int, alternative: int, got: int, place: DevicePlace) -> bool:
        """Take a device, and all that follows; take it back if that fails."""
        demand = self._claims.groups[claim][at].demands[alternative]
        view = self.views[place.pool]
        content = view.pool.table.contents[place.position]
        multiple = self._is_multiple(content)
        counted = bool(content.consumes_counters) and not (multiple and self._is_counted(view, place.position))
        if counted and not self._fits_counters(view, place.position):
            return False
        if not self.eligible(place.pool, demand).usable >> place.position & 1:
            return False
        if not self._constrain(claim, demand, view, place.position):
            return False
        if demand.takes_all and not self._has_room(place.pool, place.position, demand):
            self._release_rules(claim, demand, len(self._rules[claim]))
            return False
        consumed = consumed_capacity(demand.spec.capacity, content.capacities, self._features) if multiple else None
        pick = Pick(demand, place.pool, place.position, consumed)
        self._take(claim, view, pick, content if counted else None)
        is_served = False
        try:
            is_served = self._devices(claim, at, alternative, got + 1, DevicePlace(place.pool, place.position + 1))
        finally:
            if not is_served:
                self._give_back(claim, view, pick, content if counted else None)
        return is_served

    def _is_counted(self, view: PoolView, position: int) -> bool:
        """Return whether a device that has shares is known to have paid its counters already."""
        if view.has_shares(position):
            return True
        return self._features.behavior.remembers_shares and view.pool.table.names[position] in view.use.shares

    def _fits_counters(self, view: PoolView, position: int) -> bool:
        group = view.counters
        assert group is not None
        group.open(view.pool)
        return group.fits(view.pool.table.contents[position])

    def _constrain(self, claim: int, demand: DeviceDemand, view: PoolView, position: int) -> bool:
        content = view.pool.table.contents[position]
        for number, rule in enumerate(self._rules[claim]):
            if rule.take(demand.request, demand.alternative, view.pool.id.driver, content):
                continue
            self._release_rules(claim, demand, number)
            if demand.takes_all:
                text = f"cannot add device {view.pool.table.names[position]} because of a constraint of the claim"
                raise self._error(claim, f"constraints[{number}]", text)
            return False
        return True

    def _release_rules(self, claim: int, demand: DeviceDemand, count: int) -> None:
        for rule in reversed(self._rules[claim][:count]):
            rule.give_back(demand.request, demand.alternative)

    def _take(self, claim: int, view: PoolView, pick: Pick, counted: DeviceContent | None) -> None:
        if counted is not None and view.counters is not None:
            view.counters.take(counted)
        bit = 1 << pick.position
        if pick.consumed is None:
            view.taken |= bit
            view.taken_by[claim] |= bit
        else:
            view.shares[pick.position] = view.shares.get(pick.position, 0) + 1
            held = view.held.setdefault(pick.position, {})
            for name, amount in pick.consumed.items():
                held[name] = held.get(name, 0) + amount
        self.picks[claim].append(pick)

    def _give_back(self, claim: int, view: PoolView, pick: Pick, counted: DeviceContent | None) -> None:
        self.picks[claim].pop()
        bit = 1 << pick.position
        if pick.consumed is None:
            view.taken_by[claim] &= ~bit
            if not any(bits & bit for bits in view.taken_by):
                view.taken &= ~bit
        else:
            view.shares[pick.position] -= 1
            if not view.shares[pick.position]:
                del view.shares[pick.position]
            held = view.held[pick.position]
            for name, amount in pick.consumed.items():
                held[name] -= amount
        self._release_rules(claim, pick.demand, len(self._rules[claim]))
        if counted is not None and view.counters is not None:
            view.counters.give_back(counted)

    def _note(self, claim: int, at: int, alternative: int) -> None:
        """Remember what kept the search from getting over a request, if it is the furthest one so far."""
        furthest = next(iter(self.failures), None)
        if furthest is not None and (claim, at) < furthest[:2]:
            return
        if furthest is not None and (claim, at) > furthest[:2]:
            self.failures.clear()
        key = (claim, at, alternative)
        if key not in self.failures:
            self.failures[key] = tuple(view.taken for view in self.views)

    def without_room(self, at: int, demand: DeviceDemand, bits: int) -> int:
        """Return those of the devices of a pool whose capacity is in use by shares."""
        try:
            return sum(bit for bit in each_bit(bits) if not self._has_room(at, bit.bit_length() - 1, demand))
        except CapacityError:
            return 0
