"""A plan whose state has every part, in this version's format, from which later versions have to continue.

Usage: python -m tests.stored.plan_history DIRECTORY      once per release; its output never changes again.
"""

import json
import sys
from pathlib import Path
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders.kubernetes import (
    deployment,
    node,
    node_group,
    owner_of,
    pdb,
    pod,
    pods_of,
    replica_set,
    snapshot_of,
)
from trimtab.clients.in_process_planner import InProcessLink
from trimtab.clients.loop.kept_state import StateFile, StateKeeper
from trimtab.clients.verdicts import going
from trimtab.v1 import plan_pb2, snapshot_pb2

SNAPSHOT, STATE, WANTED = "snapshot.binpb", "plan_state", "plan.json"
CLUSTER = "stored"
FIRST_S, STEP_S = 1_790_000_000, 60


def snapshot() -> snapshot_pb2.ClusterSnapshot:
    """Return removable nodes, nodes blocked by a budget, a bare pod or an unplaceable pod, and a pending pod."""
    nodes = [f"n{number}" for number in range(1, 7)]
    web, kept = replica_set("web", 9), replica_set("kept", 1)
    homes = ["n1"] * 5 + ["n2"] * 2 + ["n3", "n4"]
    placed = [pods_of(web, len(homes), cpu="600m", node=home)[index] for index, home in enumerate(homes)]
    guarded = pods_of(kept, 1, cpu="300m", node="n5")
    return snapshot_of(
        *(node(name, labels={"own": name}) for name in nodes),
        node_group("pool", 0, 20, target=6, nodes=nodes, template=node("template"), price=0.2),
        web, placed, kept, guarded,
        pdb("guard", 0, selector=kept["spec"]["selector"], healthy=1, expected=1),
        pod("pinned", cpu="200m", node="n4", node_selector={"own": "n4"}, owner=owner_of(deployment("pinned"))),
        pod("bare", cpu="300m", node="n6"),
        pod("waits", cpu="3900m", owner=owner_of(deployment("large"))),
    )  # fmt: skip


def ask(
    snapshot_: snapshot_pb2.ClusterSnapshot, state: plan_pb2.PlanState | None, now_s: float
) -> plan_pb2.PlanResponse:
    """Return the answer of a planner to all decisions."""
    link = InProcessLink()
    payload = snapshot_.SerializeToString(deterministic=True)
    request = plan_pb2.PlanRequest(
        cluster=CLUSTER, decisions=link.info().decisions, state=state, snapshot_size_bytes=len(payload), seed=7
    )
    request.now.CopyFrom(Timestamp(seconds=int(now_s)))
    request.settings.slack.extra_capacity_min_rate = 0.4
    return link.send(request, payload)


def known(answer: plan_pb2.PlanResponse) -> dict[str, Any]:
    """Return the parts of an answer that come from earlier state: times, and the placeholders' nodes."""
    return {
        "unneeded": {one.node: one.since.ToSeconds() for one in going(answer)},
        "placeholders": {one.name: one.node for one in answer.slack.placeholders},
    }


def main(directory: Path) -> None:
    """Write the snapshot, the state after two plans, and the second answer."""
    directory.mkdir(parents=True, exist_ok=True)
    first = ask(snapshot(), None, FIRST_S)
    second = ask(snapshot(), first.state, FIRST_S + STEP_S)
    (directory / SNAPSHOT).write_bytes(snapshot().SerializeToString(deterministic=True))
    StateKeeper(StateFile(directory / STATE), CLUSTER, STEP_S).save(second.state, FIRST_S + STEP_S, is_last=True)
    (directory / WANTED).write_text(json.dumps(known(second), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
