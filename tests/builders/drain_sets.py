"""Problems of the search for drain sets: random ones as arrays and as rows, and whole clusters with every
constraint.
"""

from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

import numpy as np

from tests.builders.kubernetes import Json, node, node_group, pod, replica_set
from tests.builders.random_rows import rows
from tests.builders.rows import Labels, NodeRow, PodRow
from tests.parity.scheduler_oracle.generator.cluster import Mix
from tests.parity.scheduler_oracle.generator.source import FEATURES
from tests.reference.scale_down.search.drain_sets import Loop
from tests.reference.simulation.moves import Cluster
from trimtab.planner.drainability.kernels.limits import NodeLimits
from trimtab.planner.drainability.limits import budget_uses
from trimtab.planner.facts.pdb import BudgetMembership
from trimtab.planner.model.values import PodRequirements
from trimtab.planner.placement.kernels.search import NO_MIX, NO_MOST, Search, unknown_room
from trimtab.planner.scale_down.search.kernels.drain_sets import COUNTS, DrainProblem

NOT_TRIED = 99
SomeRows: TypeAlias = tuple[list[NodeRow], list[PodRow], dict[str, Labels]]


def some_rows(seed: int) -> SomeRows:
    """Return a cluster with every constraint, or (odd seeds) a large one with only cpu requests."""
    if seed % 2 == 0:
        return rows(seed)
    random = Random(seed)
    specs = [PodRequirements(requests=(("cpu", amount),)) for amount in (1, 2, 3)]
    nodes = [NodeRow(f"n{i}", {}, {"cpu": 11, "memory": 14, "pods": 20}) for i in range(random.randint(2, 7))]
    where = [node.name for node in nodes]
    pods = [PodRow(f"p{i:02}", random.choice(specs), node=random.choice(where)) for i in range(random.randint(1, 14))]
    return nodes, pods, {}


def tight_rows(seed: int) -> SomeRows:
    """Return 5 to 8 nodes, nearly full of pods of a few sizes."""
    random = Random(seed)
    nodes = [NodeRow(f"n{i}", {}, {"cpu": 11, "memory": 14, "pods": 20}) for i in range(random.randint(5, 8))]
    pods = []
    for at in nodes:
        free = random.randint(6, 9)
        while free > 0:
            cpu = min(free, random.randint(1, 6))
            free -= cpu
            spec = PodRequirements(requests=(("cpu", cpu), ("memory", random.randint(1, 3))))
            pods.append(PodRow(f"p{len(pods):02}", spec, node=at.name))
    return nodes, pods, {}


def random_loop(seed: int, rows_of: Callable[[int], SomeRows] = some_rows) -> Loop:
    random = Random(seed)
    nodes, pods, namespaces = rows_of(seed)
    cluster = Cluster(nodes, pods, namespaces)
    names = list(cluster.nodes)
    on = {i: [p for p, at in enumerate(cluster.at) if at == name] for i, name in enumerate(names)}
    budgets = random.randint(0, 2)
    return Loop(
        cluster=cluster,
        moving={node: [pod for pod in there if random.random() < 0.8] for node, there in on.items()},
        order=random.sample(range(len(names)), len(names)),
        allowed=[random.random() < 0.9 for _ in names],
        hint={pod: random.randrange(-1, len(names)) for pod in range(len(cluster.pods)) if random.random() < 0.4},
        needs={
            pod: [(b, random.choice((0, 1, 1))) for b in range(budgets) if random.random() < 0.5]
            for pod in range(len(cluster.pods))
        },
        left=[random.randint(0, 3) for _ in range(budgets)],
        group=[random.randrange(2) for _ in names],
        group_left=[random.randint(0, 3), random.randint(0, 9)],
        amount=[[random.randint(0, 3)] for _ in names],
        amount_left=[random.randint(0, 6)],
    )


def compressed(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    return offsets, np.array([one for row in lists for one in row], np.int32)


def membership_of(loop: Loop) -> BudgetMembership:
    count = len(loop.cluster.pods)
    offsets, budgets = compressed([[b for b, _ in loop.needs[pod]] for pod in range(count)])
    needs = np.array([need for pod in range(count) for _, need in loop.needs[pod]], np.uint8)
    return BudgetMembership(offsets, budgets, needs, np.repeat(np.arange(count), np.diff(offsets)))


def problem_of(loop: Loop, classes: int, bounded: bool = True) -> DrainProblem:
    """Return the input of the loop. bounded : with upper bounds of the nodes' room, as attempts have them."""
    mix = NO_MIX if loop.mix is None else np.array([("cpu", "memory").index(one) for one in loop.mix], np.int64)
    node_count, pod_count = len(loop.cluster.nodes), len(loop.cluster.pods)
    offsets, pods = compressed([loop.moving[node] for node in range(node_count)])
    most = np.full(len(loop.left), 99, np.int64)
    order = np.array(loop.order, np.int32)
    room = unknown_room(order) if bounded else NO_MOST
    mixed = np.zeros(classes if len(mix) else 0, np.int64)
    return DrainProblem(
        offsets,
        pods,
        np.array([loop.hint.get(pod, -1) for pod in range(pod_count)], np.int32),
        Search(order, np.array(loop.allowed), *np.zeros((2, classes), np.int64), most_free=room, mix=mix, mixed=mixed),
        NodeLimits(
            *budget_uses(offsets, pods, membership_of(loop), most),
            group=np.array(loop.group, np.int32),
            amount=np.array(loop.amount, np.int64),
            counted=np.zeros((0, node_count), bool),
            disruptions=np.array(loop.left, np.int64),
            in_turn=np.zeros(len(loop.left), np.int64),
            group_left=np.array(loop.group_left, np.int64),
            amount_left=np.array(loop.amount_left, np.int64),
            nodes_left=np.zeros(0, np.int64),
        ),
        np.zeros(node_count, np.int32),
        np.full(node_count, -1, np.int32),
        np.full(pod_count, -1, np.int32),
        np.full(node_count, NOT_TRIED, np.uint8),
        np.full(node_count, -1, np.int32),
        np.full(pod_count, -1, np.int32),
        np.zeros(COUNTS, np.int64),
        np.zeros(node_count, np.int32),
    )


MIX = Mix("matrix", FEATURES | {"volumes"}, (6, 16), (30, 70))

KINDS = {
    "pvcs": ("v1", "PersistentVolumeClaim"),
    "pvs": ("v1", "PersistentVolume"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "csiNodes": ("storage.k8s.io/v1", "CSINode"),
    "namespaces": ("v1", "Namespace"),
    "nodes": ("v1", "Node"),
}


def objects_of(document: dict[str, Any]) -> list[Json]:
    """Return the cluster's objects; every pod belongs to one ReplicaSet of its namespace, every node to one group."""
    built: list[Json] = []
    for table, (version, kind) in KINDS.items():
        built += [{"apiVersion": version, "kind": kind, **row} for row in document.get(table, [])]
    owners = {row["metadata"]["name"]: replica_set("own", 9, namespace=row["metadata"]["name"])
              for row in document["namespaces"]}  # fmt: skip
    for row in document["pods"]:
        meta = row["metadata"]
        own = owners[meta["namespace"]]["metadata"]
        reference = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "own",
            "uid": own["uid"],
            "controller": True,
        }
        uid = f"uid-{meta['namespace']}-{meta['name']}"
        built.append(
            {"apiVersion": "v1", "kind": "Pod", **row, "metadata": {**meta, "uid": uid, "ownerReferences": [reference]}}
        )
    for row in built:
        if row["kind"] == "Node":
            row["status"] = {**row.get("status", {}), "conditions": [{"type": "Ready", "status": "True"}]}
    names = [row["metadata"]["name"] for row in document["nodes"]]
    return [*built, *owners.values(), node_group("g", nodes=names, target=len(names))]


WEB = replica_set("web", 9)

APP = {"app": "web"}


def web(name: str, cpu: str, on: str = "", **more: object) -> Json:
    return pod(name, cpu, "1Mi", node=on, owner=WEB, labels=APP, **more)


def big_or_small() -> list[Json]:
    """Return a cluster in which either the expensive node can go, or both cheap ones."""
    return [
        WEB, node("big", "4"), node("small-1", "2"), node("small-2", "2"),
        node_group("dear", nodes=["big"], target=1, price=9.0),
        node_group("cheap", nodes=["small-1", "small-2"], target=2, price=1.0),
        web("p1", "750m", "big"), web("p2", "750m", "big"), web("p3", "900m", "small-1"), web("p4", "900m", "small-2"),
    ]  # fmt: skip
