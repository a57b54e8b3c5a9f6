"""Random clusters with node groups that can grow and pending pods, with every scheduling constraint."""

from collections.abc import Iterable
from random import Random

from tests.builders import random_rows
from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, Group
from trimtab.planner.model.values import PodRequirements
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb
from trimtab.v1.snapshot_pb2 import NodeGroupHealth, TolerationOperator

MARKED = 32
"""Flag of a pod that the scheduler could not place."""
NAMES = {"x/gpu": "nvidia.com/gpu", "weird": "example.com/licence"}
INVALID = {"a b", "+3", "-1", "99999999999999999999"}
"""Label values that no API server accepts, or not as numbers."""
HEALTHY = (NodeGroupHealth.UNSPECIFIED,) * 6 + tuple(NodeGroupHealth.Code.values())


def growing_cluster(seed: int, most_pending: int = 24) -> Cluster:
    """Return a cluster; many of its pending pods are equal, and some groups differ only in their zone."""
    random = Random(seed)
    rows = [random_rows.node(random, number) for number in range(random.randint(0, 4))]
    groups = _groups(random)
    specs = [_spec(random) for _ in range(random.randint(1, 4))]
    plain = [PodRequirements(requests=(("cpu", random.choice((1, 2))),)), PodRequirements(requests=(("memory", 1),))]
    nodes = {row.name: _node(random, row, groups) for row in rows}
    pods = {}
    for number in range(random.randint(0, 8)):
        row = random_rows.pod(random, number, specs, max(len(rows), 1))
        row = row._replace(volumes=()) if random.random() < 0.5 else row
        node = row.node if row.node in nodes else ""
        pods[row.namespace, f"r{number:02}"] = PodRow(
            uid=f"uid-r{number}",
            spec=row.spec,
            labels=row.labels,
            node=node,
            phase=pb.PodPhase.RUNNING if node else pb.PodPhase.PENDING,
            flags=0 if node else MARKED,
            volumes=row.volumes,
        )
    count = 0
    while count < most_pending and random.random() < 0.8:
        row = random_rows.pod(random, 0, [*specs, *plain, *plain], 1)
        equal = random.choice((1, 1, 2, 5, 9))
        flags = MARKED | (8 if row.gated else 0)
        one = PodRow(spec=row.spec, labels=row.labels, phase=pb.PodPhase.PENDING, flags=flags)
        for n in range(count, count + equal):
            pods[row.namespace, f"w{n:02}"] = one._replace(uid=f"uid-w{n}")
        count += equal
    namespaces = {name: (("team", random.choice(("red", "blue"))),) for name in random_rows.NAMESPACES}
    return Cluster(pods=pods, nodes=nodes, groups=groups, namespaces=namespaces)


def _node(random: Random, row: NodeRow, groups: dict[str, Group]) -> NodeRow:
    return row._replace(
        allocatable=dict(_amounts(row.allocatable.items())),
        ready=random.random() < 0.9,
        group=random.choice(["", *groups]),
    )


def _amounts(given: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """Return amounts by the resource names of these builders' snapshots."""
    return tuple(sorted((NAMES.get(name, name), amount) for name, amount in given if amount))


def _spec(random: Random) -> PodRequirements:
    """Return a spec that the API server accepts, without the claims of random rows, which are values within a plan."""
    spec = random_rows.spec(random)
    terms = spec.node_affinity or ()
    values = {value for term in terms for one in term.match_expressions for value in one.values}
    named = any(len(one.values) > 1 for term in terms for one in term.match_fields)
    return spec._replace(
        claims=(),
        requests=_amounts(spec.requests),
        node_affinity=None if named or values & INVALID else spec.node_affinity,
        tolerations=tuple(one for one in spec.tolerations if one.key or one.operator == TolerationOperator.EXISTS),
    )


def _groups(random: Random) -> dict[str, Group]:
    groups: dict[str, Group] = {}
    for number in range(random.randint(1, 4)):
        row = random_rows.node(random, 90 + number)
        if groups and random.random() < 0.4:
            # Like another group, in another zone.
            other = groups[random.choice(sorted(groups))]
            labels = dict(other.template.labels) if other.template else {}
            labels[random_rows.ZONE] = random.choice(("za", "zb", "zc"))
            groups[f"g{number}"] = other._replace(
                template=other.template._replace(labels=labels) if other.template else None,
                target_size=random.choice((0, 0, 1, 2)),
            )
            continue
        size, most = random.choice((0, 0, 1, 2)), random.choice((1, 3, 6))
        labels = {key: value for key, value in row.labels.items() if key != random_rows.HOST}
        amounts = dict(row.allocatable) | {"pods": random.choice((2, 5, 9))}
        template = row._replace(labels=labels, allocatable=dict(_amounts(amounts.items())))
        daemons = tuple(
            (
                random.choice(random_rows.NAMESPACES),
                _spec(random)._replace(pod_anti_affinity=()),
                (("app", random.choice("xyz")),),
            )
            for _ in range(random.choice((0, 0, 0, 1, 2)))
        )
        groups[f"g{number}"] = Group(
            max_size=most,
            target_size=size,
            template=template if random.random() < 0.95 else None,
            daemonset_pods=daemons,
            price=random.choice((None, 0.5, 1.0, 1.5)),
            health=random.choice(HEALTHY),
            zero_or_max=random.random() < 0.1,
        )
    return groups


def growth_settings(seed: int) -> plan_pb2.PlanSettings:
    """Return settings of all kinds."""
    random = Random(seed + 5)
    settings = plan_pb2.PlanSettings()
    codes = plan_pb2.Expander
    chain = [codes.LEAST_WASTE, codes.MOST_PODS, codes.LEAST_NODES, codes.PRICE, codes.HIGHEST_PRIORITY, codes.BALANCED]
    settings.scale_up.expanders.extend(random.sample(chain, random.choice((0, 1, 2))))
    if random.random() < 0.25:
        settings.scale_up.expanders.insert(0, codes.CHEAPEST_PLAN)
    settings.scale_up.balance_similar_node_groups = random.random() < 0.5
    if random.random() < 0.3:
        settings.scale_up.max_new_nodes = random.randint(1, 4)
    for _ in range(random.choice((0, 0, 1, 2))):
        limit = settings.planner.limits.add(resource=random.choice(("nodes", "cpu", "memory", "nvidia.com/gpu")))
        if random.random() < 0.7:
            limit.maximum = random.randint(0, 40)
        else:
            limit.maximum_added = random.randint(0, 12)
        if random.random() < 0.4:
            limit.nodes.match_labels["pool"] = random.choice(("1", "2"))
    return settings
