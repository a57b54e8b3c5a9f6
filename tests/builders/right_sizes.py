"""Small right-sizing problems, and the least price of pools that hold their pods, by trying everything."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders import kubernetes as k8s
from trimtab.clients.cli.rightsize.empty_cluster import empty_cluster
from trimtab.clients.cli.rightsize.machines import MachineChoice, Profile
from trimtab.clients.cli.rightsize.sizing import Sizer, Sizing, SizingLimits
from trimtab.clients.planner_client import PlannerClient
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.common.objects.karpenter.offers import MachineOffer, OfferKey, labels_of

GIB = 1 << 30
NOW = Timestamp(seconds=1_800_000_000)


class SmallOffer(NamedTuple):
    """A machine: cores, memory in GiB, most pods, and price."""

    cores: int
    memory_gib: int
    pods: int
    price: float


class SmallPod(NamedTuple):
    """A pod: milli-cores, and memory in GiB."""

    cpu_milli: int
    memory_gib: int


def machine(name: str, offer: SmallOffer, zone: str = "z1") -> MachineChoice:
    """Return a machine that offers all that it has."""
    amounts: dict[str, Any] = {
        "cpu": f"{offer.cores}",
        "memory": f"{offer.memory_gib}Gi",
        "pods": f"{offer.pods}",
    }
    key = OfferKey(name, zone, "on-demand")
    return MachineChoice(MachineOffer(key, amounts, amounts, labels_of(key), offer.price), Profile(""))


def sized(
    planner: PlannerClient,
    offers: Sequence[SmallOffer],
    pods: Sequence[SmallPod],
    limits: SizingLimits = SizingLimits(),  # noqa: B008
) -> Sizing:
    """Return the sizing of a problem."""
    objects = [k8s.namespace(), k8s.node("now")]
    objects += [
        k8s.pod(f"p{i}", cpu=f"{one.cpu_milli}m", memory=f"{one.memory_gib}Gi", node="now")
        for i, one in enumerate(pods)
    ]
    empty = empty_cluster(build_snapshot(decode_objects(objects)).snapshot)
    machines = [machine(f"t{i}", one) for i, one in enumerate(offers)]
    return Sizer(planner, empty, machines, limits, NOW).best()


def least_price(offers: Sequence[SmallOffer], pods: Sequence[SmallPod]) -> tuple[int, float]:
    """Return how many pods fit no machine, and the least price for all others: the best partition of the pods into
    nodes. O(3^pods).
    """
    fitting = [pod for pod in pods if any(_fits(offer, [pod]) for offer in offers)]
    count = len(fitting)
    alone = [_node_price(offers, [pod for i, pod in enumerate(fitting) if mask >> i & 1]) for mask in range(1 << count)]
    best = [0.0] * (1 << count)
    for mask in range(1, 1 << count):
        first = mask & -mask
        rest, part, found = mask ^ first, mask ^ first, float("inf")
        while True:
            found = min(found, alone[part | first] + best[rest ^ part])
            if not part:
                break
            part = (part - 1) & rest
        best[mask] = found
    return len(pods) - count, best[-1]


def _node_price(offers: Sequence[SmallOffer], pods: Sequence[SmallPod]) -> float:
    return min((offer.price for offer in offers if _fits(offer, pods)), default=float("inf"))


def _fits(offer: SmallOffer, pods: Sequence[SmallPod]) -> bool:
    return (
        len(pods) <= offer.pods
        and sum(pod.cpu_milli for pod in pods) <= offer.cores * 1000
        and sum(pod.memory_gib for pod in pods) <= offer.memory_gib
    )
