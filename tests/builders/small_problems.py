"""Small problems for the cheapest plan, with small numbers and every rule in use."""

from random import Random

import numpy as np

from trimtab.planner.cheapest.problem import UNLIMITED, Problem


def small_problem(seed: int) -> Problem:
    """Return a problem of up to 6 classes, 5 groups, 2 resources and 2 zones; some pods fit nowhere."""
    random = Random(seed)
    classes, groups, zones = random.randint(1, 6), random.randint(1, 5), random.randint(0, 2)

    def table(rows: int, columns: int, *choices: int) -> np.ndarray:
        return np.array([[random.choice(choices) for _ in range(columns)] for _ in range(rows)], np.int64)

    return Problem(
        demand=table(classes, 2, 0, 1, 2, 3, 5, 7),
        pods=table(1, classes, 1, 2, 5, 12, 40)[0],
        allowed=table(classes, groups, 0, 1, 1, 1) > 0,
        capacity=table(groups, 2, 0, 4, 8, 10, 16, 21),
        price=np.array([random.choice([1.0, 2.0, 0.7, random.random() + 0.1]) for _ in range(groups)]),
        most=table(1, groups, 0, 1, 3, UNLIMITED, UNLIMITED)[0],
        per_node=table(1, classes, 1, 2, UNLIMITED, UNLIMITED)[0],
        zone=table(1, groups, *range(-1, zones))[0].astype(np.int32),
        zone_most=table(classes, zones, 0, 3, 10, UNLIMITED, UNLIMITED).reshape(classes, zones),
    )
