"""Slack in a closed loop: each plan is executed, pods come and go, and the next plan starts from the result.

Nodes go as soon as they are unneeded, so anything that can flap does. Every plan is verified as a whole.
"""

from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from random import Random

import pytest
from google.protobuf.json_format import ParseDict

from tests.builders.examples import ALL
from tests.builders.slack import NOW_S, cluster, node, pod, spec, where
from tests.builders.snapshots import Cluster, write
from tests.builders.tiers import nightly_but
from tests.certificates import slack
from tests.certificates.whole_plan import offences
from trimtab.clients.verdicts import going
from trimtab.places import moves_by_node
from trimtab.planner.decisions.plan import plan
from trimtab.planner.model.values import Owner
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import UnremovableReason

LOOPS, BUSY, START = 30, 10, 2
"""Number of loops; loops in which pods come and go; loops that a new node takes to start."""
LOOP_S = 60
ROOM = 4000
OWNER = Owner("rs", "ReplicaSet", "web", "default", 99, 99, "apps/v1")
SIZES = (250, 500, 900, 1500)


@dataclass
class SlackCluster:
    """A cluster of nodes of 4 cores that executes plans.

    at : node of each pod, "" = pending; cpu : its request; starting : new nodes and the loop in which they are ready.
    """

    random: Random
    nodes: list[str]
    at: dict[str, str] = field(default_factory=dict)
    cpu: dict[str, int] = field(default_factory=dict)
    starting: list[tuple[str, int]] = field(default_factory=list)
    count: int = 0

    def free(self, name: str) -> int:
        return ROOM - sum(self.cpu[one] for one, on in self.at.items() if on == name)

    def add_pod(self) -> None:
        self.count += 1
        self.cpu[f"p{self.count:03}"] = self.random.choice(SIZES)
        self.at[f"p{self.count:03}"] = ""

    def schedule(self) -> None:
        """Bind pending pods, each to the emptiest node."""
        for name in sorted(one for one, on in self.at.items() if not on):
            fitting = [on for on in self.nodes if self.free(on) >= self.cpu[name]]
            if fitting:
                self.at[name] = max(fitting, key=lambda on: (self.free(on), on))

    def churn(self) -> None:
        for _ in range(self.random.randint(0, 3)):
            if self.random.random() < 0.5 and self.at:
                del self.at[self.random.choice(sorted(self.at))]
            else:
                self.add_pod()

    def cluster(self) -> Cluster:
        plain = cluster(0)
        group = plain.groups["g"]._replace(target_size=len(self.nodes) + len(self.starting))
        return replace(
            plain,
            nodes={name: node(name) for name in self.nodes},
            pods={("default", name): pod(name, on, spec(self.cpu[name]), owner="rs") for name, on in self.at.items()},
            owners={"rs": OWNER},
            groups={"g": group},
        )

    def carry_out(self, answer: pb.PlanResponse, loop: int, as_planned: bool = True) -> set[str]:
        """Execute the plan; return the removed nodes.

        as_planned : pods go to their planned nodes; otherwise they are pending, and the scheduler spreads them.
        """
        gone = {*answer.scale_down.delete_empty, *answer.scale_down.drain}
        for name, moves in moves_by_node(answer.scale_down.places).items():
            if name in gone:
                moved = {key.removeprefix("default/"): on for key, on in moves.items()}
                self.at |= moved if as_planned else dict.fromkeys(moved, "")
        self.nodes = [name for name in self.nodes if name not in gone]
        for split in answer.scale_up.splits:
            for _ in range(split.new_size - split.current_size):
                self.count += 1
                self.starting.append((f"n{self.count:03}", loop + START))
        return gone

    def start(self, loop: int) -> None:
        self.nodes += [name for name, there in self.starting if there <= loop]
        self.starting = [one for one in self.starting if one[1] > loop]


def world(seed: int) -> SlackCluster:
    random = Random(seed)
    made = SlackCluster(random, [f"n{number:02}" for number in range(random.randint(2, 8))])
    for _ in range(random.randint(1, 6) * len(made.nodes)):
        made.add_pod()
    made.schedule()
    return made


def eager(rate: float, granularity: int) -> pb.PlanSettings:
    """Return settings with slack and without timers."""
    settings = {
        "slack": {"extraCapacityMinRate": rate, "granularity": granularity},
        "scaleDown": {
            "unneededTime": "0s",
            "utilizationThreshold": 1.0,
            "maxScaleDownParallelism": 100,
            "maxDrainParallelism": 100,
        },
    }
    return ParseDict(settings, pb.PlanSettings())


def planned(this: SlackCluster, loop: int, settings: pb.PlanSettings, state: pb.PlanState) -> pb.PlanResponse:
    """Advance time to a loop; return its verified plan."""
    this.start(loop)
    if loop < BUSY:
        this.churn()
    this.schedule()
    message = write(this.cluster())
    request = pb.PlanRequest(
        decisions=[pb.Decision.SLACK, pb.Decision.SCALE_UP, pb.Decision.SCALE_DOWN], settings=settings
    )
    request.now.seconds = NOW_S + LOOP_S * loop
    answer = plan(canonicalize(message), request, state, Work())
    assert offences(message, settings, answer, NOW_S + LOOP_S * loop) == []
    return answer


def pauses(answer: pb.PlanResponse, loop: int) -> bool:
    """Return whether nodes with pods wait because slack has undone a drain."""
    return answer.state.scale_down.undone_drains.until_time.seconds > NOW_S + LOOP_S * loop


RATES, GRANULARITIES = (0.1, 0.4), (1, 2, 5)
# In the suite each seed, rate and granularity; in the nightly tier all pairs of two of them; with TRIMTAB_ALL_EXAMPLES
# all three with each other.
SAMPLE = [(0, 0.1, 1), (1, 0.4, 2), (2, 0.1, 5)]
CASES = [
    (seed, rate, granularity)
    for (seed, (at, rate), (other, granularity)) in product(range(3), enumerate(RATES), enumerate(GRANULARITIES))
    if ALL or (seed + at + other) % 2 == 0
]


@pytest.mark.ci
@pytest.mark.parametrize(("seed", "rate", "granularity"), nightly_but(SAMPLE, CASES))
def test_no_node_goes_while_slack_is_built_up_and_in_the_end_nothing_comes_or_goes(
    seed: int, rate: float, granularity: int
) -> None:
    this, state = world(seed), pb.PlanState()
    for loop in range(LOOPS):
        answer = planned(this, loop, eager(rate, granularity), state)
        state = answer.state
        gone = this.carry_out(answer, loop)
        lacking = [name for name, on in where(answer).items() if not on]
        assert not (gone and lacking), f"loop {loop}: {sorted(gone)} go while {lacking} wait for new nodes"
        assert all(
            (one.reason == UnremovableReason.NEEDED_FOR_SLACK) == (bool(lacking) or pauses(answer, loop))
            for one in going(answer)
        )
    # Long after the last pod has arrived, all requested slack is there, and no node is added or removed.
    assert not lacking
    assert not gone
    assert not answer.scale_up.splits
    assert not this.starting
    assert slack.offences(this.cluster(), answer, rate, granularity) == []


@pytest.mark.ci
@pytest.mark.parametrize(
    ("seed", "rate", "granularity"), nightly_but([(2, 0.4, 1)], [(0, 0.1, 1), (1, 0.4, 2), (2, 0.4, 1)])
)
def test_pods_that_land_elsewhere_than_planned_make_drains_rarer_and_rarer(
    seed: int, rate: float, granularity: int
) -> None:
    """The scheduler spreads pods into room kept for placeholders, so new nodes are added for these. If that never ends
    by itself, drains start after pauses of 10, 20, 40, … minutes.
    """
    this, state = world(seed), pb.PlanState()
    undone: list[int] = []
    for loop in range(90):
        answer = planned(this, loop, eager(rate, granularity), state)
        if answer.state.scale_down.undone_drains.times > state.scale_down.undone_drains.times:
            undone.append(loop)
        waiting = {one.node: one.detail for one in going(answer)}
        if pauses(answer, loop):
            assert not answer.scale_down.drain
            assert all(waiting[node] for node in waiting.keys() - {*answer.scale_down.delete_empty})
        state = answer.state
        this.carry_out(answer, loop, as_planned=False)
    assert undone
    assert all(later - sooner > 10 * 2**at for at, (sooner, later) in enumerate(pairwise(undone)))
    assert len(undone) <= 4
    # In between, all requested slack is there.
    assert slack.offences(this.cluster(), answer, rate, granularity) == []
