"""Convert a plan to requests to the actuator. Decides nothing: the plan's nodes and assumptions are passed on."""

from trimtab.v1 import actuator_pb2, plan_pb2


def deletion_order(request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse) -> actuator_pb2.StartDeletionRequest:
    """Return the nodes to remove now, with the plan's assumptions and limits."""
    decision, limits = answer.scale_down, request.settings.scale_down
    assumptions = {node.node: node.assumption for node in decision.unneeded}
    drained = set(decision.drain)
    return actuator_pb2.StartDeletionRequest(
        request_id=request.request_id,
        nodes=[
            actuator_pb2.NodeToDelete(node=node, drain=node in drained, assumption=assumptions[node])
            for node in (*decision.delete_empty, *decision.drain)
        ],
        plan_time=request.now,
        snapshot_version=answer.snapshot_version,
        max_parallelism=limits.max_scale_down_parallelism,
        max_drain_parallelism=limits.max_drain_parallelism,
    )


def soft_tainted(answer: plan_pb2.PlanResponse) -> list[str]:
    """Return the nodes that get the soft taint: unneeded ones that are not deleted now."""
    decision = answer.scale_down
    going = {*decision.delete_empty, *decision.drain}
    return [one.node for one in decision.unneeded if one.node not in going]
