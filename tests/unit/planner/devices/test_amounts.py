"""Quantities, consumable capacity, taint rules."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.planner.devices.plain_devices import GPU, capacity, device_slice
from trimtab.planner.devices.capacity import CapacityError, consumed_capacity, fits_capacity
from trimtab.planner.devices.model import CapacityPolicy, CapacityRange, DeviceFeatures, DeviceTaint
from trimtab.planner.devices.quantities import NANO, parse_quantity, whole_units
from trimtab.planner.devices.taint_rules import TaintRule, with_taint_rules

OLD, NEW = DeviceFeatures(version=36), DeviceFeatures(version=37)


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("1", NANO), ("0", 0), ("100m", NANO // 10), ("1.5Gi", 3 * 2**29 * NANO), ("-2k", -2000 * NANO),
        ("1e3", 1000 * NANO), ("Gi", 0), ("-", 0),
        ("1E", 10**18 * NANO), ("0.1n", 1), ("8Ei", (2**63 - 1) * NANO), (".5", NANO // 2), ("1.", NANO),
        ("", None), ("i", None), ("1 Gi", None), ("1Q", None), ("1e", None), ("--1", None),
    ],
)  # fmt: skip
def test_quantities_are_parsed_as_kubernetes_parses_them(text: str, nano: int | None) -> None:
    assert parse_quantity(text) == nano


def test_whole_units_are_rounded_away_from_zero() -> None:
    assert [whole_units(one) for one in (1, NANO, NANO + 1, 0, -1)] == [1, 1, 2, 0, -1]


def policy(**options: int) -> CapacityPolicy:
    """Return a policy by `minimum`, `maximum`, `step` and `default`, in whole units."""
    amounts = {name: number * NANO for name, number in options.items()}
    valid = CapacityRange(amounts.get("minimum"), amounts.get("maximum"), amounts.get("step"))
    return CapacityPolicy(amounts.get("default"), None, valid)


@pytest.mark.parametrize(
    ("wanted", "found", "expected"),
    [
        pytest.param(None, policy(default=4, minimum=2), 4, id="default"),
        pytest.param(1, policy(default=4, minimum=2), 2, id="minimum"),
        pytest.param(5, policy(minimum=2, step=2), 6, id="next step"),
        pytest.param(5, None, 5, id="no policy"),
        pytest.param(None, None, 20, id="all of it"),
        pytest.param(5, CapacityPolicy(NANO, (4 * NANO, 8 * NANO)), 8, id="next value"),
        pytest.param(9, CapacityPolicy(NANO, (4 * NANO, 8 * NANO)), 9, id="no value large enough"),
    ],
)
def test_requests_are_rounded_by_the_policy(wanted: int | None, found: CapacityPolicy | None, expected: int) -> None:
    requested = None if wanted is None else (("memory", wanted * NANO),)
    for features in (OLD, NEW):
        consumed = consumed_capacity(requested, (capacity("memory", 20, policy=found),), features)
        assert consumed == {"memory": expected * NANO}


def test_a_request_beyond_64_bits_is_not_changed_by_the_minimum() -> None:
    huge = 10**21
    one = capacity("memory", huge + 2, policy=CapacityPolicy(huge * NANO, None, CapacityRange(2 * NANO)))
    assert consumed_capacity((("memory", huge * NANO),), (one,), NEW) == {"memory": huge * NANO}
    assert fits_capacity((("memory", huge * NANO),), (one,), {"memory": 2 * NANO}, NEW)
    assert not fits_capacity((("memory", huge * NANO),), (one,), {"memory": 3 * NANO}, NEW)


def test_fractional_steps_count_from_1_37_on() -> None:
    one = capacity("cores", 2, policy=CapacityPolicy(NANO // 10, None, CapacityRange(NANO // 10, None, NANO // 10)))
    requested = (("cores", 3 * NANO // 20),)
    assert consumed_capacity(requested, (one,), NEW) == {"cores": NANO // 5}
    assert consumed_capacity(requested, (one,), OLD) == {"cores": NANO}
    assert consumed_capacity(requested, (one,), replace(NEW, fractional_capacity_range=False)) == {"cores": NANO}


def test_an_amount_without_a_representation_is_an_error_from_1_37_on() -> None:
    one = capacity("memory", 2**63, policy=policy(minimum=1, step=1))
    requested = (("memory", 2**63 * NANO),)
    with pytest.raises(CapacityError, match="represented"):
        fits_capacity(requested, (one,), {}, NEW)


def test_taint_rules_taint_the_devices_that_they_select_and_leave_other_slices_as_they_are() -> None:
    first, second = device_slice(GPU, GPU), device_slice(GPU, name="s2", pool="p2")
    taint = DeviceTaint("broken", "", "NoExecute")
    tainted, untouched = with_taint_rules((first, second), [TaintRule(None, "p1", "d1", taint)])
    assert untouched is second
    assert [one.taints for one in tainted.devices.contents] == [(), (taint,)]
    assert tainted.devices.contents[0] is GPU


def test_a_taint_rule_without_a_selector_taints_every_device() -> None:
    taint = DeviceTaint("broken", "", "NoExecute")
    (tainted,) = with_taint_rules((device_slice(GPU, GPU),), [TaintRule(None, None, None, taint)])
    assert [one.taints for one in tainted.devices.contents] == [(taint,), (taint,)]


def test_equal_device_sets_stay_one_object_under_a_taint_rule() -> None:
    first = device_slice(GPU, GPU)
    second = replace(first, name="s2", pool="p2")
    rules = [TaintRule(None, None, None, DeviceTaint("broken", "", "NoExecute"))]
    one, other = with_taint_rules((first, second), rules)
    assert one.devices is other.devices


_TEXTS = st.sampled_from([None, "p1", "p2", "d0", "d1", "gpu.example.com"])


@given(
    rules=st.lists(st.tuples(_TEXTS, _TEXTS, _TEXTS, st.sampled_from("abc")), max_size=8),
    pools=st.lists(st.sampled_from(["p1", "p2", "p3"]), max_size=4),
)
def test_rules_found_by_what_they_select_are_those_that_select_the_device(
    rules: list[tuple[str | None, str | None, str | None, str]], pools: list[str]
) -> None:
    given_rules = [TaintRule(driver, pool, device, DeviceTaint(key, "", "")) for driver, pool, device, key in rules]
    slices = tuple(device_slice(GPU, GPU, name=f"s{at}", pool=pool) for at, pool in enumerate(pools))
    for before, after in zip(slices, with_taint_rules(slices, given_rules), strict=True):
        for name, content in zip(after.devices.names, after.devices.contents, strict=True):
            concerning = [
                one.taint
                for one in given_rules
                if one.driver in (None, before.driver)
                and one.pool in (None, before.pool)
                and one.device in (None, name)
            ]
            assert content.taints == (*GPU.taints, *concerning)
