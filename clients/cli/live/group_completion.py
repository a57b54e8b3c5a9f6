"""What completes the node groups and the settings of rounds on a live cluster, the same for all commands: node groups
of NodePools, node groups by labels if there are none yet, then prices.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from trimtab.clients.cli.group_prices import LivePrices
from trimtab.clients.cli.label_groups import LiveLabelGroups
from trimtab.clients.cli.prices import Prices
from trimtab.clients.live.cluster import LiveCluster
from trimtab.clients.live.pool_groups import LivePoolGroups
from trimtab.clients.loop.rounds import RoundSettings
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.objects.karpenter.offers import MachineOffer
from trimtab.v1 import actuator_pb2


def completed(
    settings: RoundSettings,
    cluster: LiveCluster,
    tell: Callable[[str, str], None],
    labels: tuple[str, ...] | None = (),
    prices: Prices | None = None,
    offers: Sequence[MachineOffer] | None = None,
) -> RoundSettings:
    """Return the settings of rounds with what completes the declared node groups. tell : is given the kind of a note,
    `node_pools` or `groups_by_label`, and its text; labels : as in `LiveLabelGroups`, () = no groups by labels;
    prices : None = those of the groups; offers : machines that NodePools may have, None = those that nodes have.
    """
    pools = LivePoolGroups(cluster, lambda text: tell("node_pools", text), offers)
    by_labels = LiveLabelGroups(labels, cluster.nodes, lambda text: tell("groups_by_label", text))
    priced = LivePrices(prices, cluster) if prices is not None else None

    def complete(groups: tuple[NodeGroup, ...], status: actuator_pb2.ActuatorStatus | None) -> tuple[NodeGroup, ...]:
        found = pools.groups(groups, status)
        if not pools.are_there:
            found = by_labels(found, status)
        return priced(found, status) if priced is not None else found

    return replace(settings, complete_groups=complete, complete_settings=pools.settings)
