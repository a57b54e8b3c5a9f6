"""Random NodePools, NodeClaims and nodes of Karpenter as plain JSON dicts, and random offerings of machines; odd and
unusable fields included. Deterministic in the seed.
"""

from typing import Any

from tests.builders import karpenter as kp
from tests.builders.random_pod_specs import CREATED, Draw

Json = dict[str, Any]
POOLS = ("default", "web.a-b", "gone")
"""Names of pools; the last one is never in a cluster, but some nodes have it."""
TYPES = {"m5.large": ("2", "8Gi"), "c6g.xlarge": ("4", "8Gi"), "m-8": ("8", "32113796Ki"), "odd": ("1930m", "0.5Gi")}
ZONES = ("z1", "z2")
TEAM, SIZE, FAMILY = "example.com/team", "karpenter.k8s.aws/instance-cpu", "karpenter.k8s.aws/instance-family"
_DURATIONS = ("0s", "30s", "1h30m", "1.0005s", "Never", "-5s", "soon")
_SCHEDULES = ("@daily", "0 9 * * mon-fri", "*/15 0-5 1,15 * *", "61 * * * *", "@never")


def random_pool_objects(seed: int) -> list[Json]:
    """Return NodePools, and nodes and NodeClaims of them."""
    draw = Draw(seed)
    pools = [_pool(draw, name) for name in draw.some(POOLS[:2]) or POOLS[:1]]
    nodes = [_node(draw, f"k{i}") for i in range(draw.number(0, 6))]
    return [*pools, *nodes, *(_claim(draw, f"c{i}", nodes) for i in range(draw.number(0, 4)))]


def _pool(draw: Draw, name: str) -> Json:
    spec: Json = {
        **draw.maybe(0.3, lambda: draw.number(0, 100), "weight"),
        **draw.maybe(0.1, lambda: draw.number(0, 3), "replicas"),
        **draw.maybe(0.4, lambda: _limits(draw), "limits"),
    }
    made = kp.node_pool(
        name,
        [_requirement(draw) for _ in range(draw.number(0, 4))],
        labels={"pool": name} if draw.random.random() < 0.5 else {},
        taints=["only=web:NoSchedule"] if draw.random.random() < 0.3 else [],
        startup_taints=["cni:NoExecute"] if draw.random.random() < 0.3 else [],
        disruption=_disruption(draw) if draw.random.random() < 0.8 else None,
        **spec,
    )
    made["apiVersion"] = draw.one(("karpenter.sh/v1", "karpenter.sh/v1beta1"))
    made["spec"]["template"]["spec"] |= draw.maybe(0.2, lambda: draw.one(("720h", "Never")), "expireAfter")
    if draw.random.random() < 0.05:
        made["metadata"]["deletionTimestamp"] = CREATED[0]
    if draw.random.random() < 0.05:
        made["spec"]["template"]["spec"]["taints"].append({"key": "x", "effect": "Sometimes"})
    if draw.random.random() < 0.05:
        del made["spec"]["template"]
    return made


def _limits(draw: Draw) -> Json:
    return {
        **draw.maybe(0.7, lambda: draw.one(("16", "7500m", "0.0001")), "cpu"),
        **draw.maybe(0.5, lambda: draw.one(("64Gi", "1k")), "memory"),
        **draw.maybe(0.3, lambda: draw.one(("3", "2500m")), "nodes"),
        **draw.maybe(0.05, lambda: "-1", "pods"),
    }


def _requirement(draw: Draw) -> Json:
    least = draw.one((None, None, None, 1, 2, 3))
    key, values = draw.one(
        (
            (kp.CAPACITY_TYPE, ("on-demand", "spot")),
            (kp.ZONE, ("z1", "z2", "z3")),
            (kp.INSTANCE_TYPE, tuple(TYPES)),
            (FAMILY, ("m5", "c6g")),
            (TEAM, ("a", "b", "c")),
            ("example.com/tier", ("1", "2", "3", "4", "5", "6")),
            ("kubernetes.io/arch", ("amd64", "arm64")),
        )
    )
    if draw.random.random() < 0.02:
        odd: Json = draw.one(({"key": key, "operator": "Near"}, {"key": key, "operator": "In"}, {"operator": "Exists"}))
        return odd
    if draw.random.random() < 0.2:
        bound = draw.one(("1", "2", "1", "2", "x", "03"))
        return kp.requirement(SIZE, draw.one(("Gt", "Lt", "Gte", "Lte")), bound, min_values=least)
    operator = draw.one(("In", "In", "In", "In", "NotIn", "Exists", "DoesNotExist"))
    takes = () if operator in ("Exists", "DoesNotExist") else (draw.some(values) or values)
    return kp.requirement(key, operator, *takes, min_values=least)


def _disruption(draw: Draw) -> Json:
    policies = ("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced", "Often")
    return {
        **draw.maybe(0.5, lambda: draw.one(policies), "consolidationPolicy"),
        **draw.maybe(0.6, lambda: draw.one(_DURATIONS), "consolidateAfter"),
        **draw.maybe(0.1, lambda: "720h", "expireAfter"),
        "budgets": [_budget(draw) for _ in range(draw.number(0, 3))],
    }


def _budget(draw: Draw) -> Json:
    timed = {"schedule": draw.one(_SCHEDULES), "duration": draw.one(("8h", "10m", "0s", "soon"))}
    return {
        **draw.maybe(0.95, lambda: draw.one(("0", "5", "10%", "100%", 3, "101%", "many")), "nodes"),
        **draw.maybe(0.3, lambda: list(draw.some(("Empty", "Drifted", "Underutilized", "Bored"))), "reasons"),
        **(timed if draw.random.random() < 0.3 else draw.maybe(0.1, lambda: "@daily", "schedule")),
    }


def _labels(draw: Draw) -> dict[str, str]:
    kind = draw.one(tuple(TYPES))
    found = {
        **draw.maybe(0.95, lambda: draw.one(POOLS), kp.POOL),
        **draw.maybe(0.9, lambda: draw.one(("on-demand", "spot")), kp.CAPACITY_TYPE),
        **draw.maybe(0.9, lambda: draw.one(ZONES), kp.ZONE),
        **draw.maybe(0.4, lambda: draw.one(("a", "b", "d")), TEAM),
        **draw.maybe(0.3, lambda: str(draw.number(1, 3)), SIZE),
        **draw.maybe(0.3, lambda: draw.one(("amd64", "arm64")), "kubernetes.io/arch"),
        **draw.maybe(0.1, lambda: "SPOT", "eks.amazonaws.com/capacityType"),
        **draw.maybe(0.1, lambda: "", "node-role.kubernetes.io/control-plane"),
    }
    return found | {draw.one((kp.INSTANCE_TYPE, kp.INSTANCE_TYPE, "beta.kubernetes.io/instance-type")): kind}


def _amounts(kind: str) -> Json:
    cpu, memory = TYPES[kind]
    return {"cpu": cpu, "memory": memory, "pods": "110"}


def _type_of(labels: dict[str, str]) -> str:
    return labels.get(kp.INSTANCE_TYPE) or labels["beta.kubernetes.io/instance-type"]


def _node(draw: Draw, name: str) -> Json:
    labels = _labels(draw)
    amounts = _amounts(_type_of(labels))
    status = draw.one(({"capacity": amounts, "allocatable": {**amounts, "cpu": "1800m"}}, {"capacity": amounts}))
    meta = {"name": name, "uid": f"uid-{name}", "creationTimestamp": CREATED[0], "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": status}


def _claim(draw: Draw, name: str, nodes: list[Json]) -> Json:
    labels = _labels(draw)
    status = {
        **draw.maybe(0.5, lambda: draw.one([node["metadata"]["name"] for node in nodes] or ["k9"]), "nodeName"),
        **draw.maybe(0.7, lambda: _amounts(_type_of(labels)), "capacity"),
    }
    meta = {"name": name, "labels": labels, **draw.maybe(0.1, lambda: CREATED[0], "deletionTimestamp")}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": meta, "status": status}
