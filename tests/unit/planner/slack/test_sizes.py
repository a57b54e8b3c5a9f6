"""The formulas of sizes and counts, checked by tables computed by hand. Amounts: cpu in milli-cores, memory in MiB."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.planner.slack import sizes
from trimtab.planner.slack.settings import SlackAmount

GIB = 1024


@pytest.mark.parametrize(
    ("rate", "floor", "ceiling", "capacity", "expected"),
    [
        pytest.param(0.1, None, None, 40_000, 4_000, id="a share"),
        pytest.param(0.1, None, None, 30, 3, id="a share that floating-point numbers miss"),
        pytest.param(0.1, None, None, 41, 5, id="rounded up"),
        pytest.param(0.0, None, None, 40_000, 0, id="nothing"),
        pytest.param(0.0, 500, None, 0, 500, id="the floor of a cluster without capacity"),
        pytest.param(0.1, 5_000, None, 40_000, 5_000, id="the floor"),
        pytest.param(0.5, None, 8_000, 40_000, 8_000, id="the ceiling"),
        pytest.param(2.5, None, None, 1_000, 2_500, id="more than there is"),
        pytest.param(1e-05, None, None, 10**6, 10, id="a rate that Python writes with an exponent"),
    ],
)
def test_a_share_of_the_capacity_is_desired(
    rate: float, floor: int | None, ceiling: int | None, capacity: int, expected: int
) -> None:
    assert sizes.desired(SlackAmount(rate, floor, ceiling), capacity) == expected


@pytest.mark.parametrize(
    ("total", "nodes", "granularity", "expected"),
    [
        pytest.param({"cpu": 40_000, "memory": 160 * GIB}, 10, 5, {"cpu": 800, "memory": 3276}, id="equal nodes"),
        pytest.param({"cpu": 40_000, "memory": 160 * GIB}, 10, 1, {"cpu": 4_000, "memory": 16 * GIB}, id="whole nodes"),
        pytest.param({"cpu": 12_000}, 2, 3, {"cpu": 2_000}, id="4 and 8 cores"),
        pytest.param({"cpu": 11, "memory": 0}, 1, 4, {"cpu": 2}, id="rounded down; what no node has is left out"),
        pytest.param({"cpu": 3}, 1, 4, {"cpu": 1}, id="at least one unit"),
        pytest.param({"cpu": 0}, 0, 5, {}, id="no nodes"),
    ],
)
def test_standard_placeholders_are_parts_of_an_average_node(
    total: dict[str, int], nodes: int, granularity: int, expected: dict[str, int]
) -> None:
    size = sizes.rounded_down(sizes.standard_shares(total, nodes, granularity))
    assert size == expected
    fitting = [granularity * amount * nodes <= total[name] for name, amount in size.items() if amount > 1]
    assert all(fitting), "as many as the granularity says fit the average node"


@pytest.mark.parametrize(
    ("asked", "size", "expected"),
    [
        pytest.param({"cpu": 4_000, "memory": 16 * GIB}, {"cpu": 800, "memory": 3277}, 5, id="10 % of 10 nodes by 5"),
        pytest.param({"cpu": 4_001, "memory": 16 * GIB}, {"cpu": 800, "memory": 3277}, 6, id="at least"),
        pytest.param({"cpu": 800, "memory": 9000}, {"cpu": 800, "memory": 3000}, 3, id="the resource that needs most"),
        pytest.param({"cpu": 0, "memory": 0}, {"cpu": 800, "memory": 3000}, 0, id="nothing"),
        pytest.param({"cpu": 100}, {}, 0, id="no size"),
    ],
)
def test_there_are_as_many_as_make_the_total(asked: dict[str, int], size: dict[str, int], expected: int) -> None:
    assert sizes.count(asked, size) == expected


@pytest.mark.parametrize(
    ("asked", "size", "expected"),
    [
        pytest.param(16 * GIB, 3276, 5, id="five fifths of a node are a node"),
        pytest.param(16 * GIB + 1, 3276, 6, id="more than a node"),
        pytest.param(16 * GIB, 3275, 6, id="another size than a fifth is taken as it is"),
        pytest.param(160 * GIB, 3276, 50, id="ten nodes"),
    ],
)
def test_what_rounding_has_taken_off_a_size_asks_for_no_placeholder_more(asked: int, size: int, expected: int) -> None:
    shares = sizes.standard_shares({"memory": 160 * GIB}, 10, 5)
    assert sizes.count({"memory": asked}, {"memory": size}, shares) == expected


@given(
    st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 2**50), min_size=1),
    st.integers(1, 5000),
    st.integers(1, 50),
    st.floats(0, 3, allow_nan=False),
)
def test_the_total_is_at_least_what_is_asked_and_one_placeholder_less_would_not_be(
    total: dict[str, int], nodes: int, granularity: int, rate: float
) -> None:
    asked = {name: sizes.desired(SlackAmount(rate), amount) for name, amount in total.items()}
    shares = sizes.standard_shares(total, nodes, granularity)
    size = sizes.rounded_down(shares)
    number = sizes.count(asked, size, shares)
    # A placeholder may be up to one unit smaller.
    assert all(number * (size.get(name, 0) + 1) >= amount for name, amount in asked.items() if amount)
    assert number == 0 or any((number - 1) * size[name] < amount for name, amount in asked.items() if amount)
    assert all(amount > 0 for amount in size.values())
    assert all(
        number * size.get(name, 0) >= amount
        for name, amount in asked.items()
        if total[name] % (nodes * granularity) == 0
    )


@pytest.mark.parametrize(
    ("size", "before", "threshold", "expected"),
    [
        pytest.param({"cpu": 810}, {"cpu": 800}, 0.1, {"cpu": 800}, id="near"),
        pytest.param({"cpu": 880}, {"cpu": 800}, 0.1, {"cpu": 800}, id="as far as it may be"),
        pytest.param({"cpu": 881}, {"cpu": 800}, 0.1, {"cpu": 881}, id="too far"),
        pytest.param({"cpu": 719}, {"cpu": 800}, 0.1, {"cpu": 719}, id="too far below"),
        pytest.param({"cpu": 801}, {"cpu": 800}, 0.0, {"cpu": 801}, id="not damped"),
        pytest.param({"cpu": 800}, None, 0.1, {"cpu": 800}, id="first loop"),
        pytest.param({"cpu": 800, "memory": 1}, {"cpu": 800}, 0.1, {"cpu": 800, "memory": 1}, id="another resource"),
    ],
)
def test_sizes_are_damped(
    size: dict[str, int], before: dict[str, int] | None, threshold: float, expected: dict[str, int]
) -> None:
    assert sizes.damped(size, before, threshold) == expected


@pytest.mark.parametrize(
    ("size", "rooms", "expected"),
    [
        pytest.param({"cpu": 4}, [{"cpu": 3}, {"cpu": 4}], ({"cpu": 4}, True), id="one node has room"),
        pytest.param({"cpu": 4}, [{"cpu": 1}, {"cpu": 3}], ({"cpu": 3}, False), id="cut to the largest room"),
        pytest.param(
            {"cpu": 4, "memory": 8},
            [{"cpu": 1, "memory": 8}, {"cpu": 3, "memory": 6}],
            ({"cpu": 3, "memory": 6}, False),
            id="cut to where most of all resources is",
        ),
        pytest.param({"cpu": 4}, [], ({"cpu": 4}, False), id="no nodes"),
        pytest.param({"gpu": 4}, [{"cpu": 4}], ({"gpu": 4}, False), id="nothing of it anywhere"),
        pytest.param({}, [{"cpu": 4}], ({}, True), id="nothing asked"),
    ],
)
def test_sizes_fit_a_node(size: dict[str, int], rooms: list[dict[str, int]], expected: object) -> None:
    assert sizes.fitted(size, rooms) == expected


@pytest.mark.parametrize(
    ("amount", "scale", "expected"),
    [("3", -1, 3), ("0", 5, 0), ("20%", 10, 2), ("20%", 11, 3), ("150%", 2, 3), (" 7 ", -1, 7), ("10%", 0, 0)],
)
def test_annotations_ask_for_copies(amount: str, scale: int, expected: int) -> None:
    assert sizes.copies(amount, scale) == expected


@pytest.mark.parametrize("amount", ["", "x", "-1", "1.5", "%", "20%%", "1e3", "³", "99999999999"])
def test_annotations_that_cannot_be_read_are_refused(amount: str) -> None:
    with pytest.raises(ValueError, match="neither a count"):
        sizes.copies(amount, 10)


def test_a_percentage_of_what_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown number of pods"):
        sizes.copies("20%", -1)


@pytest.mark.parametrize(
    ("replicas", "percentage", "scale", "limit", "newest", "before_1_37"),
    [
        pytest.param(3, -1, -1, None, 3, 3, id="replicas"),
        pytest.param(-1, 25, 10, None, 3, 2, id="a percentage is rounded up, or down"),
        pytest.param(5, 25, 10, None, 5, 2, id="replicas and percentage"),
        pytest.param(1, 50, 10, None, 5, 1, id="percentage and replicas"),
        pytest.param(5, -1, -1, 2, 2, 2, id="a limit"),
        pytest.param(-1, -1, -1, 4, 4, 4, id="only a limit"),
        pytest.param(0, -1, -1, None, 0, 0, id="none"),
        pytest.param(-1, 10, 0, None, 0, 0, id="a percentage of nothing"),
    ],
)
def test_capacity_buffers_are_read_in_two_ways(
    replicas: int, percentage: int, scale: int, limit: int | None, newest: int, before_1_37: int
) -> None:
    assert sizes.buffered(replicas, percentage, scale, limit, smaller=False) == newest
    assert sizes.buffered(replicas, percentage, scale, limit, smaller=True) == before_1_37


@pytest.mark.parametrize(("replicas", "percentage"), [(-1, -1), (-1, 10), (3, 10)])
def test_buffers_that_say_too_little_are_refused(replicas: int, percentage: int) -> None:
    with pytest.raises(ValueError, match=r"neither|percentage needs"):
        sizes.buffered(replicas, percentage, -1, None, smaller=False)


def test_limits_bound_what_all_pods_request_together() -> None:
    assert sizes.most_within({"cpu": 1000, "memory": 10}, {"cpu": 300, "memory": 5}) == 2
    assert sizes.most_within({"cpu": 1000}, {"memory": 5}) is None
    assert sizes.most_within({}, {"cpu": 5}) is None
