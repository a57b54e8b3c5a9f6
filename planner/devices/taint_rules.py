"""DeviceTaintRules put on the devices of slices, as the scheduler's tracker of slices does.

Source: k8s.io/dynamic-resource-allocation/resourceslice/tracker/tracker.go, v0.36.3.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
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
    index = _TaintIndex(rules)
    return tuple([index.tainted(one) for one in asking(slices)])


class _Concerned(NamedTuple):
    """Numbers of the rules that concern some slices, ascending. every : those for all of their devices, with taints;
    named : those for one device, by its name, for each place in the index."""

    every: tuple[int, ...]
    taints: tuple[DeviceTaint, ...]
    named: tuple[dict[str, list[int]], ...]


class _TaintIndex:
    """Rules by what they select, and what they make of device sets and contents."""

    def __init__(self, rules: Sequence[TaintRule]) -> None:
        self._rules = rules
        self._every: dict[tuple[str | None, str | None], list[int]] = {}
        self._named: dict[tuple[str | None, str | None], dict[str, list[int]]] = {}
        for number, rule in enumerate(asking(rules)):
            place = rule.driver, rule.pool
            if rule.device is None:
                self._every.setdefault(place, []).append(number)
            else:
                self._named.setdefault(place, {}).setdefault(rule.device, []).append(number)
        self._places = self._every.keys() | self._named.keys()
        self._concerned: dict[tuple[tuple[str | None, str | None], ...], _Concerned] = {}
        self._sets: dict[tuple[int, int], DeviceSet] = {}
        self._contents: dict[tuple[int, tuple[DeviceTaint, ...]], DeviceContent] = {}

    def tainted(self, one: DeviceSlice) -> DeviceSlice:
        """Return a slice with the taints of the rules that concern it."""
        places = tuple(
            [(driver, pool) for driver in (None, one.driver) for pool in (None, one.pool)
             if (driver, pool) in self._places]
        )  # fmt: skip
        if not places or not one.devices.names:
            return one
        concerned = self._concerned.get(places)
        if concerned is None:
            concerned = self._concerned[places] = self._concerning(places)
        # Both live as long as this index and the slices do.
        key = id(one.devices), id(concerned)
        devices = self._sets.get(key)
        if devices is None:
            devices = self._sets[key] = self._set(one.devices, concerned)
        return one if devices is one.devices else replace(one, devices=devices)

    def _concerning(self, places: Sequence[tuple[str | None, str | None]]) -> _Concerned:
        every = sorted(chain.from_iterable(self._every.get(place, ()) for place in places))
        reserve_memory(_BYTES * len(every), _TAINTS)
        named = tuple([self._named[place] for place in places if place in self._named])
        return _Concerned(tuple(every), self._taints(every), named)

    def _taints(self, numbers: Iterable[int]) -> tuple[DeviceTaint, ...]:
        return tuple([self._rules[number].taint for number in numbers])

    def _set(self, devices: DeviceSet, concerned: _Concerned) -> DeviceSet:
        made = []
        for name, content in zip(devices.names, devices.contents, strict=True):
            own = [number for named in concerned.named for number in named.get(name, ())]
            taints = concerned.taints
            if own:
                reserve_memory(_BYTES * (len(own) + len(taints)), _TAINTS)
                taints = self._taints(sorted((*concerned.every, *own)))
            made.append(self._content(content, taints))
        if all(one is content for one, content in zip(made, devices.contents, strict=True)):
            return devices
        return DeviceSet(devices.names, tuple(made))

    def _content(self, content: DeviceContent, taints: tuple[DeviceTaint, ...]) -> DeviceContent:
        if not taints:
            return content
        key = id(content), taints
        if key not in self._contents:
            reserve_memory(_BYTES * (len(content.taints) + len(taints)), _TAINTS)
            self._contents[key] = replace(content, taints=content.taints + taints)
        return self._contents[key]
