"""Let Trimtab replace nodes of the same clusters until it finds nothing more, and print both.

Usage: python -m tests.benchmarks.karpenter.consolidation.compare CLUSTER.json [RESULT.json]
CLUSTER is a document of `clusters.py`, RESULT what the Go program has written of it. Replacement is asked alone: it
also removes nodes whose pods fit elsewhere, and nodes that have received pods of scale-down would stay for this plan.
No waiting times, as in Karpenter's policy WhenEmptyOrUnderutilized with `consolidateAfter: 0s`; `min_saving_share` is
at its default, the stability margin 0, as prices do not change here. All waves of a plan are carried out, then the next
one is made, until one finds nothing. Seconds of CPU are those of the decisions, that last one included, without reading
the objects; kernels are loaded before. The last column is another decision on the same snapshot, as in a steady loop.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.karpenter.consolidation.clusters import objects
from tests.builders.money import money_of
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.places import destinations
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.service.session import CachedSnapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb

NOW_S = 1_800_000_000
MOST_PLANS = 20


class Cluster:
    """A cluster on which plans are carried out, and what that has cost."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        self.price_of = {
            (kind["name"], offer["zone"], offer["capacityType"]): offer["price"]
            for kind in given["types"]
            for offer in kind["offerings"]
        }
        self.made, self.moved = 0, 0

    def price(self) -> float:
        """Return what all nodes cost for one hour."""
        return sum(self.price_of[one["type"], one["zone"], one["capacityType"]] for one in self._given["nodes"])

    def node_count(self) -> int:
        """Return the number of nodes."""
        return len(self._given["nodes"])

    def snapshot(self) -> Any:
        """Return the snapshot as it is sent."""
        return build_snapshot(decode_objects(objects(self._given))).snapshot

    def carry_out(self, answer: pb.PlanResponse) -> bool:
        """Carry out a plan. Return whether anything has changed."""
        moves: dict[str, str] = {}
        leaving = set[str]()
        names: dict[str, str] = {}
        for wave in answer.replacement.waves:
            for new in wave.new_nodes:
                self.made += 1
                names[new.name] = f"new-{self.made:05d}"
                kind, zone, capacity = new.node_group.split(".")
                self._given["nodes"].append(
                    {"name": names[new.name], "type": kind, "zone": zone, "capacityType": capacity}
                )
            leaving.update(replaced.node for replaced in wave.leaving)
            moves |= destinations(wave.places)
        before = {pod["name"]: pod["node"] for pod in self._given["pods"]}
        for pod in self._given["pods"]:
            place = pod["node"]
            while True:
                target = moves.pop(f"default/{pod['name']}", None)
                if target is None:
                    break
                place = names.get(target, target)
            pod["node"] = place
            assert place not in leaving, (pod, place)
        self.moved += sum(before[pod["name"]] != pod["node"] for pod in self._given["pods"])
        self._given["nodes"] = [one for one in self._given["nodes"] if one["name"] not in leaving]
        return bool(leaving)


def request() -> pb.PlanRequest:
    """Return the request."""
    asked = pb.PlanRequest(decisions=[pb.Decision.REPLACEMENT])
    asked.now.seconds = NOW_S
    swap = asked.settings.replacement
    swap.max_surge_nodes = swap.max_leaving_nodes = 100_000
    swap.max_waves = 100
    swap.stability_margin = 0.0
    return asked


def main(path: str, result: str = "") -> None:
    cluster = Cluster(json.loads(Path(path).read_text()))
    print("who, price before, price after, nodes, pods moved, plans or commands, seconds of cpu, bound, again")
    if result:
        theirs = json.loads(Path(result).read_text())
        told = [theirs[key] for key in ("before", "after", "nodes", "moved")]
        print("Karpenter", *told, len(theirs["commands"]), theirs["cpuSeconds"], "", sep=", ", flush=True)
    before, spent, bound = cluster.price(), 0.0, 0.0
    plan(canonicalize(cluster.snapshot()), request(), None, Work())
    for number in range(MOST_PLANS):
        kept = CachedSnapshot(canonicalize(cluster.snapshot()))
        used = time.process_time()
        answer = plan(kept.snapshot, request(), None, Work(cache=kept))
        spent += time.process_time() - used
        bound = money_of(answer).bound_per_hour
        if not cluster.carry_out(answer):
            break
        figures = cluster.node_count(), cluster.moved, number + 1, round(spent, 3), bound
        print("Trimtab so far", before, cluster.price(), *figures, sep=", ", flush=True)
    used = time.process_time()
    plan(kept.snapshot, request(), answer.state, Work(cache=kept))
    again = time.process_time() - used
    reached = cluster.price(), cluster.node_count(), cluster.moved
    print("Trimtab", before, *reached, number, spent, bound, again, sep=", ")


if __name__ == "__main__":
    main(*sys.argv[1:])
