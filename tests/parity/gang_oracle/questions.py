"""Random clusters with gangs and single pods, for which there is one answer: one seed, one question.

All pods request one CPU and nodes have whole ones, so that how pods are packed makes no difference; priorities differ,
so that the order of gangs and pods is known. Pools of nodes are disjoint, and gangs may have pods for several of them.
"""

import random
from typing import Any

Question = dict[str, Any]
POOLS = "abc"


def question(seed: int) -> Question:
    """Return the question of a seed, in the form that the program reads."""
    draw = random.Random(seed)
    pools = POOLS[: draw.randint(1, len(POOLS))]
    nodes = [{"pool": draw.choice(pools), "cpus": draw.randint(0, 6)} for _ in range(draw.randint(1, 8))]
    free = [node["cpus"] for node in nodes]
    priorities = draw.sample(range(1, 1000), draw.randint(1, 8))
    return {"nodes": nodes, "units": [_unit(draw, pools, priority, free) for priority in priorities]}


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
