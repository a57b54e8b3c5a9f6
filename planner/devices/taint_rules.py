"""DeviceTaintRules put on the devices of slices, as the scheduler's tracker of slices does.

Source: k8s.io/dynamic-resource-allocation/resourceslice/tracker/tracker.go, v0.36.3.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from trimtab.planner.devices.model import DeviceContent, DeviceSet, DeviceSlice, DeviceTaint


class TaintRule(NamedTuple):
    """A taint for the devices that the rule selects: by driver, pool and device name, each None = all of them."""

    driver: str | None
    pool: str | None
    device: str | None
    taint: DeviceTaint


def with_taint_rules(slices: Iterable[DeviceSlice], rules: Sequence[TaintRule]) -> tuple[DeviceSlice, ...]:
    """Return the slices with the taints of the rules, in their order, after those that drivers published; slices,
    device sets and contents that no rule concerns are the same objects as before.
    """
    sets: dict[tuple[int, tuple[TaintRule, ...]], DeviceSet] = {}
    contents: dict[tuple[int, tuple[DeviceTaint, ...]], DeviceContent] = {}
    return tuple(_tainted(one, rules, sets, contents) for one in slices)


def _tainted(
    one: DeviceSlice,
    rules: Sequence[TaintRule],
    sets: dict[tuple[int, tuple[TaintRule, ...]], DeviceSet],
    contents: dict[tuple[int, tuple[DeviceTaint, ...]], DeviceContent],
) -> DeviceSlice:
    concerned = tuple(rule for rule in rules if rule.driver in (None, one.driver) and rule.pool in (None, one.pool))
    if not concerned or not one.devices.names:
        return one
    key = (id(one.devices), concerned)
    devices = sets.get(key)
    if devices is None:
        made = []
        for name, content in zip(one.devices.names, one.devices.contents, strict=True):
            taints = tuple(rule.taint for rule in concerned if rule.device in (None, name))
            content_key = (id(content), taints)
            if content_key not in contents:
                contents[content_key] = replace(content, taints=content.taints + taints) if taints else content
            made.append(contents[content_key])
        devices = sets[key] = DeviceSet(one.devices.names, tuple(made))
    return replace(one, devices=devices)
