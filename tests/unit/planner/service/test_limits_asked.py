"""Whatever is large in a request, its deadline is asked and its memory is taken while the work that follows is done."""

from collections.abc import Callable
from functools import cache

import pytest

from tests.builders.examples import ALL
from tests.fuzz.shapes import SHAPES, tainted_slices
from tests.fuzz.targets import HANDLER
from trimtab.common.rpc.errors import Reason, ServiceError
from trimtab.planner.model.execution import UNLIMITED, RequestLimits, asking, check_limits, in_context, within
from trimtab.planner.service.request_handler import Caller
from trimtab.planner.service.request_limits import Bounds, RequestMemory, ThreadLanes

SIZES = {
    "expressions": (1, 6),
    "pod_sets": (4, 300),
    "taint_rules": (8, 1200),
    "tainted_slices": (8, 600),
    "missing_members": (1, 40),
    "own_claims": (2, 60),
    "template_slices": (8, 1500),
    "groups_with_requests": (8, 1500),
    "node_groups": (8, 1500),
}
"""A small and a large number for each shape."""
BYTES = {"expressions": 1 << 20, "missing_members": 500_000, "tainted_slices": 100_000}


class Counting:
    """Counts what is asked; the caller goes after `leaves_after` questions."""

    def __init__(self, leaves_after: int = 1 << 60) -> None:
        self.asked = self.reserved = 0
        self._leaves_after = leaves_after

    def is_wanted(self) -> bool:
        self.asked += 1
        return self.asked <= self._leaves_after

    def reserve(self, byte_count: int, what: str) -> None:
        assert byte_count >= 0, what
        self.reserved += byte_count

    @property
    def caller(self) -> Caller:
        return Caller(bounds=Bounds(is_wanted=self.is_wanted), reserve=self.reserve)


def counted(name: str, size: int, leaves_after: int = 1 << 60) -> Counting:
    request, cluster = SHAPES[name].make(size)
    counting = Counting(leaves_after)
    HANDLER.plan(request, cluster.SerializeToString(), counting.caller)
    return counting


@cache
def asked(name: str, size: int) -> Counting:
    """Return what is asked where the caller stays."""
    return counted(name, size)


def test_every_shape_has_sizes() -> None:
    assert SIZES.keys() == SHAPES.keys()


@pytest.mark.parametrize("name", SHAPES)
def test_the_deadline_is_asked_and_memory_taken_more_often_the_more_there_is_to_do(name: str) -> None:
    small, large = (asked(name, size) for size in SIZES[name])
    growth = SIZES[name][1] - SIZES[name][0]
    assert large.asked >= small.asked + growth // 64
    assert large.reserved >= small.reserved + BYTES.get(name, 100 * growth)


@pytest.mark.parametrize("name", SHAPES)
def test_a_caller_that_goes_ends_its_plan_wherever_it_is(name: str) -> None:
    every = asked(name, SIZES[name][1]).asked
    for share in (1, 4, 7) if ALL else (4,):
        with pytest.raises(ServiceError) as refusal:
            counted(name, SIZES[name][1], every * share // 8)
        assert refusal.value.reason == Reason.CANCELLED


def test_memory_is_refused_before_the_pods_of_a_request_are_made() -> None:
    request, cluster = SHAPES["pod_sets"].make(1)
    del cluster.capacity_requests.requests[0].pod_sets[9:]
    assert (
        HANDLER.plan(request, cluster.SerializeToString(), Caller()).capacity_requests.requests[0].pod_count == 900_000
    )
    many = pytest.raises(ServiceError, match="ProvisioningRequests")
    with RequestMemory(16 << 20).share() as reserve, many as refusal:
        HANDLER.plan(request, cluster.SerializeToString(), Caller(reserve=reserve))
    assert refusal.value.reason == Reason.MEMORY_EXCEEDED


def test_checks_of_fitting_ask_the_deadline_of_their_own_caller() -> None:
    request, cluster = tainted_slices(300)
    counting = Counting()
    answers = HANDLER.check_fit(request, cluster.SerializeToString(), counting.caller)
    assert next(answers).pod
    between = counting.asked
    # Between two answers the thread is the caller's.
    check_limits()
    assert counting.asked == between
    assert between > counted("tainted_slices", 300).asked // 4


class Refusing:
    def check(self) -> None:
        raise TimeoutError

    def reserve(self, byte_count: int, what: str) -> None:
        raise MemoryError


def asks(limits: RequestLimits, work: Callable[[], object]) -> bool:
    with within(limits):
        try:
            work()
        except TimeoutError:
            return True
    return False


def test_limits_hold_in_the_block_and_in_tasks_of_other_threads() -> None:
    assert asks(Refusing(), check_limits)
    assert asks(Refusing(), lambda: list(asking([1])))
    assert not asks(Refusing(), lambda: list(asking([])))
    assert asks(Refusing(), lambda: ThreadLanes(3)([lambda: None, check_limits, check_limits]))
    assert not asks(UNLIMITED, check_limits)
    with within(Refusing()):
        task = in_context(check_limits)
    check_limits()
    with pytest.raises(TimeoutError):
        task()


def test_a_plan_that_has_ended_leaves_no_limits_to_the_next_one() -> None:
    request, cluster = SHAPES["own_claims"].make(5)
    with pytest.raises(ServiceError):
        HANDLER.plan(request, cluster.SerializeToString(), Counting(3).caller)
    check_limits()
    assert HANDLER.plan(request, cluster.SerializeToString(), Caller()).diagnostics.decisions
