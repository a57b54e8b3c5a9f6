"""Scale-up options and the facts of their node groups, without a cluster."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trimtab.planner.facts.similarity import Sample, Similarity
from trimtab.planner.model.settings import PriorityRank, ScaleUpSettings, SimilaritySettings
from trimtab.planner.scale_up.expanders import ChoiceState, ExpanderContext, GroupFacts, Options, Verdict, choose

GIB = 1 << 30
ALL = SimilaritySettings()


class Group(NamedTuple):
    """A node group and its option: cores and GiB of a node, number of new nodes, pods and their requests."""

    cores: float = 4
    gib: float = 16
    price: float = np.nan
    nodes: int = 1
    pods: int = 1
    pod_cores: float = 1
    pod_gib: float = 1
    gpu: bool = False
    labels: Mapping[str, str] = {}
    kind: int = -1
    size: int = 0


def groups_of(rows: Mapping[str, Group]) -> GroupFacts:
    """Return the facts of groups, sorted by id."""
    ids = sorted(rows)
    return GroupFacts(
        tuple(ids),
        np.array([round(rows[name].cores * 1000) for name in ids], np.int64),
        np.array([round(rows[name].gib * GIB) for name in ids], np.int64),
        np.array([rows[name].price for name in ids], np.float64),
        np.array([rows[name].gpu for name in ids], bool),
        tuple(dict(rows[name].labels) for name in ids),
        Similarity(lambda: [Sample((rows[name].kind,)) if rows[name].kind >= 0 else None for name in ids], ALL),
    )


def options_of(rows: Mapping[str, Group]) -> Options:
    """Return one option per group, in the given order."""
    ids = sorted(rows)
    columns = [
        (ids.index(name), row.nodes, row.pods, round(row.pod_cores * 1000), round(row.pod_gib * GIB))
        for name, row in rows.items()
    ]
    return Options(*np.ascontiguousarray(np.array(columns, np.int64).reshape(-1, 5).T))


def ranked(ranks: Mapping[int, Sequence[str]]) -> ScaleUpSettings:
    """Return settings of PRIORITY."""
    found = (PriorityRank(rank, tuple(map(re.compile, ranks[rank]))) for rank in sorted(ranks, reverse=True))
    return ScaleUpSettings(priority=tuple(found))


def chosen_among(
    rows: Mapping[str, Group], *expanders: int, settings: ScaleUpSettings | None = None, **more: Any
) -> tuple[str, Verdict]:
    """Return the chosen group ("" = none) and the choice. more : fields of `ExpanderContext`, and `choice`."""
    choice = more.pop("choice", 0)
    context = ExpanderContext(groups_of(rows), settings or ScaleUpSettings(), **({"node_count": 10} | more))
    sizes = np.array([rows[name].size for name in sorted(rows)], np.int64)
    found = choose(context, ChoiceState(choice, sizes), options_of(rows), expanders)
    names = list(rows)
    return names[found.chosen] if found.chosen >= 0 else "", found
