"""A proof that devices of an allocation may be given together: from objects as the API server writes them, without
planner code. It says nothing of whether other devices would have come first.

Checked: the devices exist in the newest generation of a complete pool and are for the node; each request has its number
or one alternative, by class, selectors, tolerations and sizes; nothing is given away twice; counters, capacities,
constraints and the limit of a claim hold.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from tests.certificates.device_objects import Json, amounts, attribute, is_tolerated, reaches

Key = tuple[str, str, str]
"""driver, pool, device."""
Matches = Callable[[str, str, Json], bool]


class Given(NamedTuple):
    """A device of an allocation. request : "request" or "request/alternative"; consumed : of a share, else None."""

    claim: int
    request: str
    key: Key
    admin: bool
    consumed: Mapping[str, Fraction] | None


class Published(NamedTuple):
    """A device of a slice."""

    device: Json
    spec: Json


def offences(document: Json, node: Json, claims: Sequence[Json], given: Sequence[Given], matches: Matches) -> list[str]:
    """Return what is wrong with devices given to the claims of one pod; [] = nothing. `document` has slices, classes
    and what is `allocated` before.
    """
    devices = published(document["slices"], node)
    found = [f"{one.key} is not there for the node" for one in given if one.key not in devices]
    if found:
        return found
    for number, claim in enumerate(claims):
        mine = [one for one in given if one.claim == number]
        found += [f"claim {number}: {len(mine)} devices"] if len(mine) > 32 else []
        found += _requests(document, claim, mine, devices, matches)
        found += _constraints(claim, mine, devices)
    before = [one for one in document.get("allocated") or () if not one.get("adminAccess")]
    found += _uses(before, given, devices)
    found += _counters(document, before, given, devices)
    return found


def published(slices: Sequence[Json], node: Json) -> dict[Key, Published]:
    """Return the devices for a node, of complete pools in their newest generation."""
    pools: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for one in slices:
        pools[one["spec"]["driver"], one["spec"]["pool"]["name"]].append(one["spec"])
    found = {}
    for (driver, pool), specs in pools.items():
        newest = max(one["pool"]["generation"] for one in specs)
        current = [one for one in specs if one["pool"]["generation"] == newest]
        if any(one["pool"]["resourceSliceCount"] != len(current) for one in current):
            continue
        for spec in current:
            for device in spec.get("devices") or ():
                if reaches(device if spec.get("perDeviceNodeSelection") else spec, node):
                    found[driver, pool, device["name"]] = Published(device, spec)
    return found


def _requests(
    document: Json, claim: Json, mine: Sequence[Given], devices: Mapping[Key, Published], matches: Matches
) -> Iterator[str]:
    named: Counter[str] = Counter(one.request for one in mine)
    for request in claim["spec"]["devices"]["requests"]:
        name = request["name"]
        options = {name: request["exactly"]} if "exactly" in request else {}
        options |= {f"{name}/{one['name']}": one for one in request.get("firstAvailable") or ()}
        chosen = [option for option in options if option in named]
        if len(chosen) != 1:
            yield f"{name}: {len(chosen)} of its alternatives have devices"
            continue
        option = options[chosen[0]]
        taken = [one for one in mine if one.request == chosen[0]]
        if option.get("allocationMode") != "All" and len(taken) != option["count"]:
            yield f"{chosen[0]}: {len(taken)} devices, not {option['count']}"
        if len({one.key for one in taken}) < len(taken):
            yield f"{chosen[0]}: a device twice"
        for one in taken:
            yield from _device(document, option, one, devices[one.key].device, matches)
        named.pop(chosen[0])
    yield from (f"devices for {name}, which nobody asked for" for name in named)


def _device(document: Json, option: Json, one: Given, device: Json, matches: Matches) -> Iterator[str]:
    (owner,) = (found for found in document["classes"] if found["metadata"]["name"] == option["deviceClassName"])
    for source in (owner.get("spec") or {}, option):
        for selector in source.get("selectors") or ():
            if not matches(selector["cel"]["expression"], one.key[0], device):
                yield f"{one.key} does not match {selector['cel']['expression']}"
    if not is_tolerated(device, option):
        yield f"{one.key} is tainted"
    if one.admin != bool(option.get("adminAccess")):
        yield f"{one.key}: admin access"
    sizes = amounts(device.get("capacity"))
    for name, wanted in amounts((option.get("capacity") or {}).get("requests")).items():
        if wanted > sizes.get(name, -1):
            yield f"{one.key} has not {wanted} of {name}"
        if one.consumed is not None and one.consumed[name] < wanted:
            yield f"{one.key} gives less of {name} than asked for"
    if (one.consumed is not None) != bool(device.get("allowMultipleAllocations")):
        yield f"{one.key}: a share of a device that is given away whole, or the other way round"


def _constraints(claim: Json, mine: Sequence[Given], devices: Mapping[Key, Published]) -> Iterator[str]:
    for one in claim["spec"]["devices"].get("constraints") or ():
        names = one.get("requests") or ()
        concerned = [
            found for found in mine if not names or found.request in names or found.request.partition("/")[0] in names
        ]
        name = one.get("matchAttribute") or one["distinctAttribute"]
        values = [attribute(devices[found.key].device, found.key[0], name) for found in concerned]
        if None in values:
            yield f"a device has no {name}"
        if "matchAttribute" in one and len(set(values)) > 1:
            yield f"{name} differs"
        # Up to 1.36 devices of one request may be alike; of two requests with one device each they may not.
        single = [found.request for found in concerned]
        if "distinctAttribute" in one and len(set(single)) == len(single) == 2 and values[0] == values[1]:
            yield f"{name} is equal"


def _uses(before: Sequence[Json], given: Sequence[Given], devices: Mapping[Key, Published]) -> Iterator[str]:
    exclusive = {_key(one) for one in before if "shareID" not in one}
    whole = Counter(one.key for one in given if not one.admin and one.consumed is None)
    for key, count in whole.items():
        if count > 1 or key in exclusive:
            yield f"{key} is given away twice"
    yield from (f"{one.key} is in use as a whole" for one in given if not one.admin and one.key in exclusive)
    sums: dict[Key, Counter[str]] = defaultdict(Counter)
    for one in before:
        for name, value in amounts(one.get("consumedCapacity")).items():
            sums[_key(one)][name] += value
    for found in given:
        for name, value in (found.consumed or {}).items():
            sums[found.key][name] += value
    for key in {one.key for one in given if one.consumed is not None}:
        sizes = amounts(devices[key].device.get("capacity"))
        yield from (f"{key}: too much {name} is given away" for name, value in sums[key].items() if value > sizes[name])


def _counters(
    document: Json, before: Sequence[Json], given: Sequence[Given], devices: Mapping[Key, Published]
) -> Iterator[str]:
    used = {_key(one) for one in before} | {one.key for one in given}
    for driver, pool in {one.key[:2] for one in given if devices[one.key].device.get("consumesCounters")}:
        everything = [one["spec"] for one in document["slices"]]
        specs = [one for one in everything if (one["driver"], one["pool"]["name"]) == (driver, pool)]
        newest = max(one["pool"]["generation"] for one in specs)
        specs = [one for one in specs if one["pool"]["generation"] == newest]
        left: Counter[tuple[str, str]] = Counter()
        for one in (one for spec in specs for one in spec.get("sharedCounters") or ()):
            left.update({(one["name"], name): value for name, value in amounts(one["counters"]).items()})
        for device in (device for spec in specs for device in spec.get("devices") or ()):
            if (driver, pool, device["name"]) in used:
                for one in device.get("consumesCounters") or ():
                    taken = amounts(one["counters"])
                    left.subtract({(one["counterSet"], name): value for name, value in taken.items()})
        yield from (f"{pool}: counter {pair} is exceeded by {-value}" for pair, value in left.items() if value < 0)


def _key(result: Json) -> Key:
    return (result["driver"], result["pool"], result["device"])


def given_by(answer: Mapping[str, Any]) -> list[Given]:
    """Return the devices of an answer in the form of `tests.parity.device_documents`, amounts there in nano-units."""
    return [
        Given(
            number,
            device[0],
            device[1:],
            claim["admin"][at],
            None
            if claim["consumed"][at] is None
            else {name: Fraction(nano, 10**9) for name, nano in claim["consumed"][at]},
        )
        for number, claim in enumerate(answer["claims"])
        for at, device in enumerate(claim["devices"])
    ]
