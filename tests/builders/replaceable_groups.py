"""Node groups without nodes, of which others may take the place."""

from tests.builders import kubernetes as k8s
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.v1 import snapshot_pb2


def group(name: str, cpu: str, memory: str, price: float | None, **more: object) -> dict[str, object]:
    zone, taints = str(more.pop("zone", "")), more.pop("taints", ())
    node = k8s.node("t", cpu=cpu, memory=memory, zone=zone, taints=taints)  # type: ignore[arg-type]
    arguments: dict[str, object] = {"max_size": 1000, **more}
    return k8s.node_group(name, price=price, template=node, **arguments)  # type: ignore[arg-type]


def cluster(*objects: dict[str, object]) -> snapshot_pb2.ClusterSnapshot:
    return build_snapshot(decode_objects([k8s.namespace(), *objects])).snapshot
