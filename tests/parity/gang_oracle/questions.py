"""Random clusters with gangs and single pods, for which there is one answer: one seed, one question.

All pods request one CPU and nodes have whole ones, so that how pods are packed makes no difference; priorities differ,
so that the order of gangs and pods is known. Pools of nodes are disjoint, and gangs may have pods for several of them.
"""

import random
from collections.abc import Sequence
from typing import Any

Question = dict[str, Any]
POOLS = "abc"
ODD = ("priority", "gate", "scheduler", "running priority", "running scheduler", "group priority")


def question(seed: int, minor: int = 36) -> Question:
    """Return the question of a seed, in the form that the program reads. minor : version of Kubernetes; from 37 on,
    some groups have the policy basic, and something is odd about some: one pod has another priority than the others, a
    scheduling gate or another scheduler, or the group has another priority than its pods."""
    draw = random.Random(seed)
    pools = POOLS[: draw.randint(1, len(POOLS))]
    nodes = [{"pool": draw.choice(pools), "cpus": draw.randint(0, 6)} for _ in range(draw.randint(1, 8))]
    free = [node["cpus"] for node in nodes]
    priorities = draw.sample(range(1, 1000), draw.randint(1, 8))
    units = [_unit(draw, pools, priority, free) for priority in priorities]
    if minor >= 37:
        for unit in units:
            _vary(draw, unit)
    return {"nodes": nodes, "units": units}


def _vary(draw: random.Random, unit: Question) -> None:
    """Make some pods without a group a group with the policy basic, and something odd about some groups."""
    if not unit["min"] and draw.random() < 0.5:
        unit["basic"] = True
    if (unit["min"] or unit.get("basic")) and draw.random() < 0.3:
        unit["odd"] = draw.choice(ODD)


def joined(questions: Sequence[Question]) -> Question:
    """Return one question about all these clusters side by side: pools are apart, so that the answer is the same."""
    nodes: list[Question] = []
    units: list[Question] = []
    for at, one in enumerate(questions):
        base = len(nodes)
        nodes += [node | {"pool": f"{node['pool']}{at}"} for node in one["nodes"]]
        for unit in one["units"]:
            pods = {f"{pool}{at}": count for pool, count in unit["pods"].items()}
            units.append(unit | {"pods": pods, "running": [base + node for node in unit["running"]]})
    return {"nodes": nodes, "units": units}


def _unit(draw: random.Random, pools: str, priority: int, free: list[int]) -> Question:
    """Return a gang or single pods; its running pods take from what nodes have free."""
    chosen = sorted(draw.sample(pools, draw.randint(1, len(pools))))
    pods = {pool: draw.randint(1, 6) for pool in chosen}
    running = []
    if draw.random() < 0.3:
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(free))
            if free[at]:
                free[at] -= 1
                running.append(at)
    waiting = sum(pods.values())
    # Now and then more than exist; often all of them, or fewer.
    least = draw.choice((0, waiting, waiting + len(running), draw.randint(1, waiting), waiting + draw.randint(0, 2)))
    return {"min": least, "priority": priority, "pods": pods, "running": running}
