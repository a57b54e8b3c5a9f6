"""Gangs of equal pods are served exactly if some new nodes, tried one by one, make them whole, at the least price."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.gangs import GangRow, gang_snapshot, member
from tests.builders.kubernetes import Json, node, node_group
from tests.builders.scale_up import plan_message
from tests.reference.scale_up.whole_gang import GrowingGroup, cheapest_whole

SEEDS = st.integers(0, 2**48)


class Drawn:
    """A gang, free room on nodes, and groups that may grow, all small."""

    def __init__(self, seed: int, kinds: int) -> None:
        random = Random(seed)
        sizes = random.sample((1, 2, 3), kinds)
        self.pods = [random.choice(sizes) for _ in range(random.randint(1, 6))]
        self.least = random.randint(1, len(self.pods))
        self.free = [random.randint(1, 4) for _ in range(random.randint(0, 2))]
        self.groups = [
            GrowingGroup(random.randint(1, 5), random.randint(0, 2), random.randint(1, 4))
            for _ in range(random.randint(1, 3))
        ]

    def objects(self) -> list[Json]:
        """Return it as objects; amounts are cores."""
        pods = [member(f"p{i}", "g", str(size), created=f"2026-01-01T00:00:0{i}Z") for i, size in enumerate(self.pods)]
        nodes = [node(f"n{i}", str(size)) for i, size in enumerate(self.free)]
        groups = [
            node_group(f"a{i}", 0, one.most, target=0, price=float(one.price), template=node("t", str(one.size)))
            for i, one in enumerate(self.groups)
        ]
        return [*pods, *nodes, *groups]

    def planned(self) -> tuple[bool, float]:
        """Return whether the gang is served, and what its nodes cost."""
        settings = {"gangs": {"serveOptionalMembers": False}}
        decision = plan_message(gang_snapshot([GangRow("g", self.least)], self.objects()), settings=settings).decision
        return not decision.gangs[0].reason, decision.price_per_hour

    def whole(self) -> int | None:
        return cheapest_whole(self.pods, self.least, self.free, self.groups)


@given(SEEDS)
@examples(300)
def test_a_gang_of_equal_pods_is_served_exactly_if_it_can_be_whole_and_at_the_least_price(seed: int) -> None:
    drawn = Drawn(seed, 1)
    served, price = drawn.planned()
    whole = drawn.whole()
    assert served == (whole is not None)
    assert not served or price == whole


@given(SEEDS)
@examples(300)
def test_no_gang_is_served_that_cannot_be_whole(seed: int) -> None:
    drawn = Drawn(seed, 2)
    assert not drawn.planned()[0] or drawn.whole() is not None
