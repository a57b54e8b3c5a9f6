"""Nodes and money of a plan, added up node by node from the snapshot and the decisions of an answer."""

from collections.abc import Iterator
from typing import NamedTuple

from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import snapshot_pb2

CODE = pb.Decision


class Step(NamedTuple):
    """What one decision changes. gone : names of nodes; new : node group of each new node; pods : that get places."""

    code: int
    gone: set[str]
    new: list[str]
    pods: int


class Figures(NamedTuple):
    """Numbers of a cluster: nodes, pods on them, price an hour of those of known price, number of the others."""

    nodes: int
    pods: int
    price: float
    unpriced: int


def node_price(snapshot: snapshot_pb2.ClusterSnapshot, node: snapshot_pb2.Node) -> float | None:
    """Return the price of a node for one hour, None = unknown."""
    if node.HasField("price_per_hour"):
        return node.price_per_hour
    return group_price(snapshot, node.node_group)


def group_price(snapshot: snapshot_pb2.ClusterSnapshot, name: str) -> float | None:
    """Return the price of a new node of a group for one hour, None = unknown."""
    for group in snapshot.node_groups:
        if group.id == name:
            return group.price_per_hour if group.HasField("price_per_hour") else None
    return None


def steps(answer: pb.PlanResponse) -> Iterator[Step]:
    """Yield what each decision of an answer changes, in the order of the table."""
    if answer.HasField("slack"):
        yield Step(CODE.SLACK, set(), [], 0)
    if answer.HasField("scale_up"):
        growth = answer.scale_up
        placeholders = {one.name for one in answer.slack.placeholders}
        new = [one.node_group for one in growth.splits for _ in range(one.new_size - one.current_size)]
        yield Step(CODE.SCALE_UP, set(), new, len(set(growth.places.pods) - placeholders))
    if answer.HasField("scale_down"):
        yield Step(CODE.SCALE_DOWN, {one.node for one in answer.scale_down.unneeded}, [], 0)
    if answer.HasField("replacement"):
        waves = answer.replacement.waves
        gone = {one.node for wave in waves for one in wave.leaving}
        yield Step(CODE.REPLACEMENT, gone, [one.node_group for wave in waves for one in wave.new_nodes], 0)


def figures(snapshot: snapshot_pb2.ClusterSnapshot, answer: pb.PlanResponse, pods: int) -> Iterator[Figures]:
    """Yield the numbers now and after each decision. pods : number of pods on nodes now."""
    there, new = {node.name: node for node in snapshot.nodes}, list[str]()
    for gone, more, placed in [(set[str](), list[str](), 0), *((one.gone, one.new, one.pods) for one in steps(answer))]:
        there = {name: node for name, node in there.items() if name not in gone}
        new, pods = new + more, pods + placed
        prices = [node_price(snapshot, node) for node in there.values()]
        prices += [group_price(snapshot, name) for name in new]
        known = [price for price in prices if price is not None]
        yield Figures(len(prices), pods, sum(known), len(prices) - len(known))
