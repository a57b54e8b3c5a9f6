"""Templates of node groups with what nodes really have, in place of what their machines have.

Decides that each amount is the least over all machines of a group, and that what is declared for nodes stands. Keeps
what it has made for as long as neither template nor nodes seen change. Pure but for that; not thread-safe.
"""

from collections.abc import Sequence
from typing import Final

from actuator.cloud.provider import NodeTemplate
from actuator.node_types.estimate import Estimator, least
from actuator.tracker.states import NodeAmounts, SeenType

_KIB: Final = 1 << 10


class Offers:
    """Templates by node group, after these nodes were seen."""

    def __init__(self) -> None:
        self._begin(())

    def _begin(self, seen: Sequence[SeenType]) -> None:
        self._seen = seen
        self._estimator = Estimator(seen)
        self._made: dict[str, tuple[NodeTemplate, NodeTemplate]] = {}

    def of(self, group: str, template: NodeTemplate, seen: Sequence[SeenType]) -> NodeTemplate:
        """Return the template with what its nodes have; the same where its amounts are those of nodes already."""
        if not template.machines:
            return template
        if seen is not self._seen:
            self._begin(seen)
        known = self._made.get(group)
        if known is None or known[0] != template:
            known = self._made[group] = template, _offered(group, template, self._estimator)
        return known[1]


def _offered(group: str, template: NodeTemplate, estimator: Estimator) -> NodeTemplate:
    offers = [estimator.offer(group, machine) for machine in template.machines]
    capacity, allocatable = least([one.capacity for one in offers]), least([one.allocatable for one in offers])
    return template._replace(
        capacity={**template.capacity, **_texts(capacity, template)},
        allocatable={**template.allocatable, **_texts(allocatable, template)},
    )


def _texts(amounts: NodeAmounts, template: NodeTemplate) -> dict[str, str]:
    """Return amounts as quantities, without what is declared, or is not known."""
    cpu, memory = amounts.cpu_milli, amounts.memory_bytes
    texts = {
        "cpu": f"{cpu}m" if cpu % 1000 else str(cpu // 1000),
        "memory": str(memory) if memory % _KIB else f"{memory // _KIB}Ki",
    }
    if amounts.pods:
        texts["pods"] = str(amounts.pods)
    return {name: text for name, text in texts.items() if name not in template.declared}
