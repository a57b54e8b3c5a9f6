"""Target sizes that are lowered: by nodes that were ordered for a gang or a ProvisioningRequest, have not registered,
and are of no use to it.

Decides which groups, from the plan and the sizes in the actuator's status. The cloud ends no instance that runs.
"""

from collections import Counter

from trimtab.clients.loop.capacity import all_splits
from trimtab.v1 import actuator_pb2, plan_pb2


def useless_upcoming(answer: plan_pb2.PlanResponse) -> Counter[str]:
    """Return by node group how many nodes are still to come for gangs that have no use for them."""
    useless: Counter[str] = Counter()
    for gang in answer.scale_up.gangs:
        useless.update(gang.release.upcoming)
    return useless


def target_reductions(
    answer: plan_pb2.PlanResponse, status: actuator_pb2.ActuatorStatus | None
) -> list[actuator_pb2.TargetReduction]:
    """Return the reductions, by group: none below the minimum, none of a group that grows in the same plan."""
    # Both may mean the same nodes: the larger number counts; what is left follows in the next round.
    useless = useless_upcoming(answer) | Counter(answer.capacity_requests.release.upcoming)
    grows = {split.node_group for split in all_splits(answer)}
    return [
        actuator_pb2.TargetReduction(
            node_group=group.id,
            current_size=group.target_size,
            new_size=max(group.target_size - useless[group.id], group.min_size),
        )
        for group in (status.node_groups if status is not None else ())
        if useless[group.id] > 0 and group.id not in grows and group.target_size > group.min_size
    ]
