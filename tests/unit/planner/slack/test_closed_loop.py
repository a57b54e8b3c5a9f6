"""Slack in a closed loop: what the plan says is done, pods come and go, and the next plan is made of what came of it.

Nodes go as soon as they are unneeded, so that whatever can flap does. Every plan is proven as a whole.
"""

from dataclasses import dataclass, field, replace
from random import Random

import pytest
from google.protobuf.json_format import ParseDict
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import UnremovableReason

from planner.decisions.plan import plan
from planner.decisions.work import Work
from planner.model.values import Owner
from planner.snapshot.decode import canonicalize
from tests.builders.slack import NOW_S, cluster, node, pod, spec, where
from tests.builders.snapshots import Cluster, write
from tests.certificates import slack
from tests.certificates.whole_plan import offences

LOOPS, BUSY, START = 30, 10, 2
"""Loops; those in which pods come and go; loops that a new node takes to start."""
ROOM = 4000
OWNER = Owner("rs", "ReplicaSet", "web", "default", 99, 99, "apps/v1")
SIZES = (250, 500, 900, 1500)


@dataclass
class World:
    """A cluster of nodes of 4 cores that does what it is told.

    at : node of each pod, "" = it waits; cpu : its request; starting : new nodes and the loop in which they are there.
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
        """Bind pods that wait, each to the emptiest node."""
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

    def carry_out(self, answer: pb.PlanResponse, loop: int) -> set[str]:
        """Add and remove what the plan says; return the nodes that went."""
        gone = {*answer.scale_down.delete_empty, *answer.scale_down.drain}
        for entry in answer.scale_down.unneeded:
            if entry.node in gone:
                self.at |= {key.removeprefix("default/"): on for key, on in entry.destinations.items()}
        self.nodes = [name for name in self.nodes if name not in gone]
        for split in answer.scale_up.splits:
            for _ in range(split.new_size - split.current_size):
                self.count += 1
                self.starting.append((f"n{self.count:03}", loop + START))
        return gone

    def start(self, loop: int) -> None:
        self.nodes += [name for name, there in self.starting if there <= loop]
        self.starting = [one for one in self.starting if one[1] > loop]


def world(seed: int) -> World:
    random = Random(seed)
    made = World(random, [f"n{number:02}" for number in range(random.randint(2, 8))])
    for _ in range(random.randint(1, 6) * len(made.nodes)):
        made.add_pod()
    made.schedule()
    return made


@pytest.mark.parametrize("granularity", [1, 2, 5])
@pytest.mark.parametrize("rate", [0.1, 0.4])
@pytest.mark.parametrize("seed", range(3))
def test_no_node_goes_while_slack_is_built_up_and_in_the_end_nothing_comes_or_goes(
    seed: int, rate: float, granularity: int
) -> None:
    settings = ParseDict(
        {
            "slack": {"extraCapacityMinRate": rate, "granularity": granularity},
            "scaleDown": {
                "unneededTime": "0s",
                "utilizationThreshold": 1.0,
                "maxScaleDownParallelism": 100,
                "maxDrainParallelism": 100,
            },
        },
        pb.PlanSettings(),
    )
    this, state = world(seed), pb.PlanState()
    for loop in range(LOOPS):
        this.start(loop)
        if loop < BUSY:
            this.churn()
        this.schedule()
        message = write(this.cluster())
        request = pb.PlanRequest(
            decisions=[pb.Decision.SLACK, pb.Decision.SCALE_UP, pb.Decision.SCALE_DOWN], settings=settings
        )
        request.now.seconds = NOW_S + 60 * loop
        answer = plan(canonicalize(message), request, state, Work())
        state = answer.state
        assert offences(message, settings, answer, NOW_S + 60 * loop) == []
        gone = this.carry_out(answer, loop)
        lacking = [name for name, on in where(answer).items() if not on]
        assert not (gone and lacking), f"loop {loop}: {sorted(gone)} go while {lacking} wait for new nodes"
        assert all(
            (one.not_now_reason == UnremovableReason.NEEDED_FOR_SLACK) == bool(lacking)
            for one in answer.scale_down.unneeded
        )
    # Long after the last pod has come, all that is asked for is there, and nothing comes or goes any more.
    assert not lacking
    assert not gone
    assert not answer.scale_up.splits
    assert not this.starting
    assert slack.offences(this.cluster(), answer, rate, granularity) == []
