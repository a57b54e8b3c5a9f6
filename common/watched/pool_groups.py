"""The node groups of the NodePools in a store of objects."""

from collections.abc import Sequence

from trimtab.common.kubernetes.kinds.karpenter import OfferObject
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.objects.karpenter.offers import MachineOffer, given_offers
from trimtab.common.objects.karpenter.pools import KarpenterObjects, PoolGroups, pool_groups
from trimtab.common.watched.watched_objects import WatchedObjects
from trimtab.v1 import plan_pb2


def store_pool_groups(
    store: WatchedObjects,
    declared: Sequence[NodeGroup],
    offers: Sequence[MachineOffer] | None = None,
    given: Sequence[OfferObject] = (),
) -> PoolGroups:
    """Return the node groups of the NodePools in a store; none without NodePools. offers, given : the machines that
    they may have, known or as objects; without any, those of the nodes. Errors: ObjectError.
    """
    pools = list(store.objects["NodePool"].values())
    if not pools:
        return PoolGroups([], plan_pb2.PlanSettings(), [])
    if offers is None and given:
        offers = given_offers(given)
    claims, nodes = (list(store.objects[kind].values()) for kind in ("NodeClaim", "Node"))
    return pool_groups(KarpenterObjects(pools, claims, nodes, declared), offers)
