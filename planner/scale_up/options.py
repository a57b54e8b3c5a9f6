"""Options of scale-up: node groups, each with its growth for some pods, and the data for the choice among them.

Rows of node groups are those of `Snapshot.groups`, which are sorted by id. Amounts of a new node are
its capacity, as in upstream.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.facts.readiness import GPU_SUFFIX
from trimtab.planner.facts.similarity import Similarity
from trimtab.planner.model.settings import ScaleUpSettings
from trimtab.planner.placement.group_templates import labels_by_group
from trimtab.planner.simulation.virtual_rows import GroupTemplate
from trimtab.planner.snapshot.columns import Bool, Int64, Snapshot

Float64 = NDArray[np.float64]
_CPU: Final = "cpu"
_MEMORY: Final = "memory"


class Options(NamedTuple):
    """Options as columns. group, node_count, pod_count, cpu_milli, memory_bytes : int64[O]."""

    group: Int64
    node_count: Int64
    pod_count: Int64
    cpu_milli: Int64
    memory_bytes: Int64


class GroupFacts(NamedTuple):
    """Data about a new node of each group.

    ids : ids; cpu_milli, memory_bytes : int64[G] capacity, 0 for a group without template; price_per_hour : float64[G],
    NaN = unknown; is_gpu : bool[G], it has GPUs or their label; labels : of the template; similarity : of the
    groups.
    """

    ids: tuple[str, ...]
    cpu_milli: Int64
    memory_bytes: Int64
    price_per_hour: Float64
    is_gpu: Bool
    labels: tuple[dict[str, str], ...]
    similarity: Similarity


def describe(
    snapshot: Snapshot, templates: Sequence[GroupTemplate | None], gpu_label: str, similarity: Similarity
) -> GroupFacts:
    """Return the expanders' input for each group. gpu_label : "" = none."""
    capacity = [dict(one.capacity) if one else {} for one in templates]
    labels = labels_by_group(templates)
    return GroupFacts(
        ids=tuple(group.id for group in snapshot.groups),
        cpu_milli=np.array([one.get(_CPU, 0) for one in capacity], np.int64),
        memory_bytes=np.array([one.get(_MEMORY, 0) for one in capacity], np.int64),
        price_per_hour=np.array([group.price_per_hour for group in snapshot.groups], np.float64),
        is_gpu=np.array(
            [
                one is not None and (gpu_label in label or _offers_gpu(one))
                for one, label in zip(templates, labels, strict=True)
            ],
            bool,
        ),
        labels=labels,
        similarity=similarity,
    )


def _offers_gpu(template: GroupTemplate) -> bool:
    return any(name.endswith(GPU_SUFFIX) and amount > 0 for name, amount in template.template.allocatable)


@dataclass(frozen=True)
class ExpanderContext:
    """The expanders' input besides the options, the same for all choices of a decision.

    node_count : nodes of the cluster; seed : `PlanRequest.seed`.
    """

    groups: GroupFacts
    settings: ScaleUpSettings
    node_count: int
    seed: int = 0
    _by_group: dict[str, Float64] = field(default_factory=dict, repr=False, compare=False)

    def by_group(self, name: str, build: Callable[[], Float64]) -> Float64:
        """Return the result of `build`, float64[G], built on first use of this name."""
        found = self._by_group.get(name)
        if found is None:
            found = self._by_group[name] = build()
        return found


class ChoiceState(NamedTuple):
    """The input that changes from one choice to the next.

    choice : its number, from 0; size : int64[G] nodes of each group, including those added by the plan.
    """

    choice: int
    size: Int64
