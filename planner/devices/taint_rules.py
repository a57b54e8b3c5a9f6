"""DeviceTaintRules put on the devices of slices, as the scheduler's tracker of slices does.

Source: k8s.io/dynamic-resource-allocation/resourceslice/tracker/tracker.go, v0.36.3.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Final, NamedTuple

from trimtab.planner.devices.model import DeviceContent, DeviceSet, DeviceSlice, DeviceTaint
from trimtab.planner.model.execution import asking, reserve_memory

_BYTES: Final = 40
"""Memory of a taint in each list that has it, and of its number in the list."""
_TAINTS: Final = "taints of devices by rules"


class TaintRule(NamedTuple):
    """A taint for the devices that the rule selects: by driver, pool and device name, each None = all of them."""

    driver: str | None
    pool: str | None
    device: str | None
    taint: DeviceTaint


def with_taint_rules(slices: Iterable[DeviceSlice], rules: Sequence[TaintRule]) -> tuple[DeviceSlice, ...]:
    """Return the slices with the taints of the rules, in their order, after those that drivers published; slices,
    device sets and contents that no rule concerns are the same objects as before. O(rules + devices + taints put).
    """
    numbers: dict[tuple[str | None, str | None], dict[str | None, list[int]]] = {}
    for number, rule in enumerate(asking(rules)):
        numbers.setdefault((rule.driver, rule.pool), {}).setdefault(rule.device, []).append(number)
    concerning: dict[tuple[tuple[str | None, str | None], ...], _Concerned] = {}
    # Device sets and contents live as long as the slices.
    sets: dict[tuple[int, int], DeviceSet] = {}
    contents: dict[tuple[int, tuple[DeviceTaint, ...]], DeviceContent] = {}
    tainted_slices = []
    for device_slice in asking(slices):
        places = tuple(
            [place for place in product((None, device_slice.driver), (None, device_slice.pool)) if place in numbers]
        )
        if places and device_slice.devices.names:
            if places not in concerning:
                concerning[places] = _Concerned(rules, [numbers[place] for place in places])
            key = id(device_slice.devices), id(concerning[places])
            if key not in sets:
                sets[key] = concerning[places].tainted(device_slice.devices, contents)
            tainted_slices.append(
                device_slice if sets[key] is device_slice.devices else replace(device_slice, devices=sets[key])
            )
        else:
            tainted_slices.append(device_slice)
    return tuple(tainted_slices)


class _Concerned:
    """The rules that concern some slices: those for all of their devices, with taints, and those for one device."""

    def __init__(self, rules: Sequence[TaintRule], numbers: Sequence[Mapping[str | None, list[int]]]) -> None:
        self._rules, self._named = rules, numbers
        self._every = sorted(chain.from_iterable(of.get(None, ()) for of in numbers))
        self._taints = self._put(self._every)

    def _put(self, numbers: Sequence[int]) -> tuple[DeviceTaint, ...]:
        reserve_memory(_BYTES * len(numbers), _TAINTS)
        return tuple([self._rules[number].taint for number in numbers])

    def tainted(
        self, devices: DeviceSet, content_of: dict[tuple[int, tuple[DeviceTaint, ...]], DeviceContent]
    ) -> DeviceSet:
        """Return devices with the taints of the rules. content_of : contents with taints."""
        contents = []
        for name, content in zip(devices.names, devices.contents, strict=True):
            own = [number for of in self._named for number in of.get(name, ())]
            taints = self._put(sorted((*self._every, *own))) if own else self._taints
            if taints and (id(content), taints) not in content_of:
                reserve_memory(_BYTES * (len(content.taints) + len(taints)), _TAINTS)
                content_of[id(content), taints] = replace(content, taints=content.taints + taints)
            contents.append(content_of[id(content), taints] if taints else content)
        is_same = all(tainted is content for tainted, content in zip(contents, devices.contents, strict=True))
        return devices if is_same else DeviceSet(devices.names, tuple(contents))
