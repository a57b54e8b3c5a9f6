"""Small clusters with other prices or limits, and as they are once a plan of replacement is carried out."""

from collections.abc import Mapping
from random import Random

from tests.builders.kubernetes import Json
from tests.builders.replacement import SIZES, SmallCluster
from trimtab.v1 import plan_pb2


def with_prices(objects: list[Json], prices: Mapping[str, float | None]) -> list[Json]:
    """Return objects in which node groups have these prices, None = unknown."""
    return [_with_spec(one, price=prices[one["metadata"]["name"]]) if _is_group(one) else one for one in objects]


def at_their_maximum(objects: list[Json]) -> list[Json]:
    """Return objects in which no node group may have more nodes than it has."""
    return [_with_spec(one, maxSize=one["spec"]["targetSize"]) if _is_group(one) else one for one in objects]


def varied_prices(random: Random, share: float) -> dict[str, float]:
    """Return the usual prices, each up to this share lower or higher."""
    return {name: size.price * random.uniform(1 - share, 1 + share) for name, size in SIZES.items()}


def replaced(cluster: SmallCluster, decision: plan_pb2.ReplacementDecision) -> SmallCluster:
    """Return a cluster after all waves of a plan."""
    group_of = {f"n{i}": name for i, name in enumerate(cluster.nodes)}
    at = {f"default/p{i}-{j}": f"n{i}" for i, pods in enumerate(cluster.pods) for j in range(len(pods))}
    for wave in decision.waves:
        group_of |= {one.name: one.node_group for one in wave.new_nodes}
        for gone in wave.leaving:
            at |= gone.destinations
            del group_of[gone.node]
    pods: dict[str, list[tuple[int, int]]] = {name: [] for name in group_of}
    for i, there in enumerate(cluster.pods):
        for j, amounts in enumerate(there):
            pods[at[f"default/p{i}-{j}"]].append(amounts)
    return SmallCluster(list(group_of.values()), list(pods.values()))


def _is_group(one: Json) -> bool:
    return bool(one["kind"] == "NodeGroup")


def _with_spec(one: Json, **fields: object) -> Json:
    spec = {key: value for key, value in (one["spec"] | fields).items() if value is not None}
    return one | {"spec": spec}
