"""Templates of node groups with the real resources of nodes in place of those of their machines. Each amount is the
least over all machines of a group; amounts declared for nodes are kept. For disk, huge pages and devices that no node
of a machine has shown, the template's amount counts; if it gives none, the group has the same disk and huge pages on
all machines, and no devices. Keeps its results while neither the template nor the nodes seen change. Otherwise pure;
not thread-safe.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from trimtab.actuator.cloud.provider import CloudNodeTemplate
from trimtab.actuator.kube.cluster import is_extended
from trimtab.actuator.node_types.estimate import Estimator, least
from trimtab.actuator.tracker.states import NodeAmounts, SeenType
from trimtab.common.kubernetes.quantities import counted_amount

_KIB: Final = 1 << 10
_IN_BYTES: Final = ("memory", "ephemeral-storage")


class Offers:
    """Templates by node group, from the nodes seen."""

    def __init__(self) -> None:
        self._begin(())

    def _begin(self, seen: Sequence[SeenType]) -> None:
        self._seen = seen
        self._estimator = Estimator(seen)
        self._made: dict[str, tuple[CloudNodeTemplate, CloudNodeTemplate]] = {}

    def of(self, group: str, template: CloudNodeTemplate, seen: Sequence[SeenType]) -> CloudNodeTemplate:
        """Return the template with its nodes' resources; unchanged if its amounts are those of nodes already."""
        if not template.machines:
            return template
        if seen is not self._seen:
            self._begin(seen)
        known = self._made.get(group)
        if known is None or known[0] != template:
            known = self._made[group] = template, _offered(group, template, self._estimator)
        return known[1]


def _offered(group: str, template: CloudNodeTemplate, estimator: Estimator) -> CloudNodeTemplate:
    offers = [estimator.offer(group, machine) for machine in template.machines]
    capacity, allocatable = least([offer.capacity for offer in offers]), least([offer.allocatable for offer in offers])
    others = [[dict(offer.capacity.others) for offer in offers], [dict(offer.allocatable.others) for offer in offers]]
    return template._replace(
        capacity=_with_others({**template.capacity, **_texts(capacity, template)}, others[0], template),
        allocatable=_with_others({**template.allocatable, **_texts(allocatable, template)}, others[1], template),
    )


def _with_others(
    given: Mapping[str, str], shown: Sequence[Mapping[str, int]], template: CloudNodeTemplate
) -> dict[str, str]:
    """Return the amounts plus the other resources that all machines have, according to their nodes."""
    texts = dict(given)
    for name in sorted({name for amounts in shown for name in amounts} - template.declared):
        known = [amounts[name] for amounts in shown if name in amounts]
        if len(known) < len(shown) and (name in given or is_extended(name)):
            known.append(counted_amount(name, given.get(name, "0")))
        texts[name] = _text(name, min(known))
        if not min(known):
            del texts[name]
    return texts


def _text(name: str, number: int) -> str:
    return f"{number // _KIB}Ki" if name in _IN_BYTES and number % _KIB == 0 else str(number)


def _texts(amounts: NodeAmounts, template: CloudNodeTemplate) -> dict[str, str]:
    """Return amounts as quantities, without those that are declared or not known."""
    cpu = amounts.cpu_milli
    texts = {
        "cpu": f"{cpu}m" if cpu % 1000 else str(cpu // 1000),
        "memory": _text("memory", amounts.memory_bytes),
    }
    if amounts.pods:
        texts["pods"] = str(amounts.pods)
    return {name: text for name, text in texts.items() if name not in template.declared}
