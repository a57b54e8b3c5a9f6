"""Let Trimtab replace nodes of the same clusters until it finds nothing more, and print both.

Usage: python -m tests.benchmarks.karpenter.consolidation.compare CLUSTER.json [RESULT.json]
CLUSTER is a document of `clusters.py`, RESULT what the Go program has written of it. Scale-down and replacement are
asked together, with utilization thresholds of 1 and no waiting time, as Karpenter's policy WhenEmptyOrUnderutilized
with `consolidateAfter: 0s`; all waves of a plan are carried out, then the next one is made. Seconds of CPU are those of
the decisions, without reading the objects.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.karpenter.consolidation.clusters import objects
from trimtab.clients.snapshots.objects import build_snapshot, decode_objects
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.work import Work
from trimtab.planner.service.version_cache import CachedSnapshot
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
        """Carry out scale-down and replacement. Return whether anything has changed."""
        moves: dict[str, str] = {}
        leaving = set[str]()
        for unneeded in answer.scale_down.unneeded:
            leaving.add(unneeded.node)
            moves |= dict(unneeded.destinations)
        names: dict[str, str] = {}
        for wave in answer.replacement.waves:
            for new in wave.new_nodes:
                self.made += 1
                names[new.name] = f"new-{self.made:05d}"
                kind, zone, capacity = new.node_group.split(".")
                self._given["nodes"].append(
                    {"name": names[new.name], "type": kind, "zone": zone, "capacityType": capacity}
                )
            for replaced in wave.leaving:
                leaving.add(replaced.node)
                moves |= dict(replaced.destinations)
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
    """Return the request for both decisions."""
    asked = pb.PlanRequest(decisions=[pb.Decision.SCALE_DOWN, pb.Decision.REPLACEMENT])
    asked.now.seconds = NOW_S
    down = asked.settings.scale_down
    down.utilization_threshold, down.unneeded_time.seconds = 1.0, 0
    down.max_scale_down_parallelism = down.max_drain_parallelism = 100_000
    swap = asked.settings.replacement
    swap.max_surge_nodes = swap.max_leaving_nodes = 100_000
    swap.max_waves = 100
    swap.min_saving_share = 0.0
    swap.stability_margin = 0.0
    return asked


def main(path: str, result: str = "") -> None:
    cluster = Cluster(json.loads(Path(path).read_text()))
    print("who, price before, price after, nodes, pods moved, plans or commands, seconds of cpu, bound")
    if result:
        theirs = json.loads(Path(result).read_text())
        told = [theirs[key] for key in ("before", "after", "nodes", "moved")]
        print("Karpenter", *told, len(theirs["commands"]), theirs["cpuSeconds"], "", sep=", ", flush=True)
    before, spent, bound = cluster.price(), 0.0, 0.0
    for number in range(MOST_PLANS):
        kept = CachedSnapshot(canonicalize(cluster.snapshot()))
        used = time.process_time()
        answer = plan(kept.snapshot, request(), None, Work(cache=kept))
        spent += time.process_time() - used
        bound = answer.replacement.cost.bound_per_hour
        if not cluster.carry_out(answer):
            break
        figures = cluster.node_count(), cluster.moved, number + 1, round(spent, 3), bound
        print("Trimtab so far", before, cluster.price(), *figures, sep=", ", flush=True)
    print("Trimtab", before, cluster.price(), cluster.node_count(), cluster.moved, number, spent, bound, sep=", ")


if __name__ == "__main__":
    main(*sys.argv[1:])
