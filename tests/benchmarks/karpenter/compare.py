"""Plan for the pods that Karpenter has solved, and print both.

Usage: python -m tests.benchmarks.karpenter.compare DIRECTORY [EXPANDER...]
DIRECTORY is what `growth_test.go` has written. Each plan is proven by the certificate, but for an order in which pods
can be placed: with selectors that match one another's pods, it finds none in minutes. Times are those of the decision
alone, as Karpenter's are of `Solve` alone: the best of three, of this thread and by the clock. "At least" is a price
that no plan is below: of the cores or the memory requested, whichever is dearer, as if nodes could be cut to measure.
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.certificates.scale_up import offences
from trimtab.common.kubernetes.quantities import quantity
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.places import count_places
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.service.session import CachedSnapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb

NOW_S = 1_800_000_000
EXPANDERS = ("CHEAPEST_PLAN", "LEAST_WASTE")
TIMES = 3


def main(directory: str, *expanders: str) -> None:
    print("pods, who, placed, nodes, price an hour, seconds of cpu, seconds")
    for path in sorted(Path(directory).glob("karpenter-*.json"), key=lambda one: int(one.stem.split("-")[1])):
        theirs = json.loads(path.read_text())
        told = [theirs[key] for key in ("placed", "nodes", "pricePerHour", "cpuSeconds", "solveSeconds")]
        print(theirs["pods"], "Karpenter", *told, sep=", ", flush=True)
        items = json.loads(path.with_name(f"cluster-{theirs['pods']}.json").read_text())["items"]
        print(theirs["pods"], "at least", "", "", at_least(items), sep=", ")
        for who, *said in ours(items, expanders or EXPANDERS):
            print(theirs["pods"], who, *said, sep=", ", flush=True)


def at_least(items: list[dict[str, Any]]) -> float:
    """Return a price an hour that is not above that of any plan."""
    pods = [item["spec"] for item in items if item["kind"] == "Pod"]
    groups = [item["spec"] for item in items if item["kind"] == "NodeGroup"]
    bounds = []
    for resource in ("cpu", "memory"):
        asked = [one["resources"].get("requests", {}).get(resource, "0") for pod in pods for one in pod["containers"]]
        amounts = [(one["price"], one["template"]["status"]["allocatable"][resource]) for one in groups]
        bounds.append(sum(map(quantity, asked)) * min(price / quantity(of) for price, of in amounts))
    return max(bounds)


def ours(items: list[dict[str, Any]], expanders: Sequence[str]) -> Iterator[tuple[str, int, int, float, float, float]]:
    """Yield for each expander pods placed, nodes, price an hour, and the seconds that the decision took."""
    message = build_snapshot(decode_objects(items)).snapshot
    kept = CachedSnapshot(canonicalize(message))
    for expander in expanders:
        request = pb.PlanRequest(decisions=[pb.Decision.SCALE_UP])
        request.now.seconds = NOW_S
        request.settings.scale_up.expanders.append(pb.Expander.Code.Value(expander))
        request.settings.scale_up.max_new_nodes = 50_000
        took = []
        for _ in range(TIMES):
            start, used = time.perf_counter(), time.thread_time()
            found = plan(kept.snapshot, request, None, Work(cache=kept)).scale_up
            took.append((time.thread_time() - used, time.perf_counter() - start))
        broken = offences(message, request.settings, found, NOW_S, bounded=True, ordered=False)
        assert not broken, broken[:3]
        placed = count_places(found.places).new
        nodes = sum(split.new_size - split.current_size for split in found.splits)
        yield expander, placed, nodes, found.price_per_hour, *map(min, zip(*took, strict=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
