"""Proof that a replacement is consistent with the other decisions of its answer, without planner code: it moves nothing
that they rely on, and budgets, group sizes and money are those after them.
"""

from collections import Counter
from collections.abc import Iterator

from tests.builders.money import money_of
from tests.certificates import scale_up
from tests.certificates.disruption import goes_with_its_node, overdrawn
from tests.certificates.scheduling import Placement
from trimtab.places import destinations, moves_by_node, on_existing
from trimtab.v1 import plan_pb2

CLOSE = 1e-6


def moves_of(decision: plan_pb2.ReplacementDecision) -> dict[str, str]:
    """Return where each moved pod goes."""
    return {key: to for wave in decision.waves for key, to in destinations(wave.places).items()}


def carried_out(plan: scale_up.Plan, before: Placement, decision: plan_pb2.ReplacementDecision) -> Placement:
    """Return the pods' nodes after all waves. before : after the decisions before."""
    gone = {one.node for wave in decision.waves for one in wave.leaving}
    node_of = {pod.key: name for name, pods in before.on.items() for pod in pods if name not in gone}
    nodes = before.nodes - gone
    for new in (one for wave in decision.waves for one in wave.new_nodes):
        template = plan.templates[new.node_group]
        assert template is not None, f"{new.node_group} has no template"
        for pod in template.join(plan.cluster, new.name):
            plan.pods[pod.key] = pod
            node_of[pod.key] = new.name
        nodes.add(new.name)
    return Placement(plan.cluster, nodes, node_of | moves_of(decision))


def conflicts(plan: scale_up.Plan, answer: plan_pb2.PlanResponse) -> Iterator[str]:
    """Return what contradicts the decisions before. Nodes that take pods of scale-down may go later, with them."""
    waves, gone = answer.replacement.waves, {one.node for one in answer.scale_down.unneeded}
    relied_on = set(on_existing(answer.scale_up).values())
    for name in (one.node for wave in waves for one in wave.leaving):
        if name in gone:
            yield f"{name} goes twice"
        if name in relied_on:
            yield f"{name} is replaced, but pods are to come there"
    yield from _moved_again(plan, answer)
    if waves:
        yield from _budgets(plan, answer)
        yield from _sizes(plan, answer)
    yield from _money(plan, answer)


def _moved_again(plan: scale_up.Plan, answer: plan_pb2.PlanResponse) -> Iterator[str]:
    """Check that exactly the pods that are on a node when its wave begins, and need a place, get another."""
    node_of = {pod.key: pod.node for pod in plan.cluster.pods.values() if pod.node and not pod.ended}
    node_of |= destinations(answer.scale_down.places)
    first = set(answer.scale_down.places.pods)
    for wave in answer.replacement.waves:
        moves = moves_by_node(wave.places)
        for entry in wave.leaving:
            there = {
                key
                for key, node in node_of.items()
                if node == entry.node
                and (key in first or not goes_with_its_node(plan.cluster.pods[key], plan.now_s, plan.cutoff))
            }
            moved = set(moves.get(entry.node, ()))
            if there != moved:
                yield f"{entry.node}: moves {sorted(moved)[:5]}, not {sorted(there)[:5]}"
        node_of |= destinations(wave.places)


def _budgets(plan: scale_up.Plan, answer: plan_pb2.PlanResponse) -> Iterator[str]:
    """Check the evictions of the first wave with those of scale-down."""
    before = list(answer.scale_down.places.pods)
    leaving = [
        pod.key
        for pod in plan.cluster.pods.values()
        if pod.node in plan.leaving and not goes_with_its_node(pod, plan.now_s, plan.cutoff)
    ]
    first = [plan.pods[key] for key in (*leaving, *before) if key in plan.cluster.pods]
    then = [plan.pods[key] for key in answer.replacement.waves[0].places.pods]
    yield from overdrawn(plan.cluster, first, [pod for pod in then if pod.key in plan.cluster.pods], in_turn=True)


def _sizes(plan: scale_up.Plan, answer: plan_pb2.PlanResponse) -> Iterator[str]:
    """Check the sizes of groups, with the nodes of scale-up, and without those of scale-down in the end."""
    size = {key: group.target_size for key, group in plan.cluster.groups.items()}
    for split in answer.scale_up.splits:
        size[split.node_group] += split.new_size - split.current_size
    gone = Counter(plan.cluster.nodes[one.node].node_group for one in answer.scale_down.unneeded)
    for wave in answer.replacement.waves:
        for new in wave.new_nodes:
            size[new.node_group] += 1
            if size[new.node_group] > plan.cluster.groups[new.node_group].max_size:
                yield f"{new.node_group} has {size[new.node_group]} nodes during the surge"
        for one in wave.leaving:
            size[one.node_group] -= 1
            left = size[one.node_group] - gone[one.node_group]
            if left < plan.cluster.groups[one.node_group].min_size:
                yield f"{one.node_group} has {left} nodes left"


def _money(plan: scale_up.Plan, answer: plan_pb2.PlanResponse) -> Iterator[str]:
    """Check the price after scale-down, and after the replacement."""
    if not answer.HasField("replacement") or answer.summary.assumption:
        return
    cost = money_of(answer)
    price = {key: one.price_per_hour for key, one in plan.cluster.groups.items() if one.HasField("price_per_hour")}
    gone = {one.node for one in answer.scale_down.unneeded} - plan.leaving
    saved = sum(price.get(plan.cluster.nodes[name].node_group, 0.0) for name in gone)
    after = cost.now_per_hour + answer.scale_up.price_per_hour - saved
    if abs(cost.before_per_hour - after) > CLOSE:
        yield f"after scale-down: {cost.before_per_hour}, not {after}"
    after -= sum(one.saving_per_hour for one in answer.replacement.waves)
    if abs(cost.after_per_hour - after) > CLOSE:
        yield f"after the replacement: {cost.after_per_hour}, not {after}"
