"""Price and pods moved, plan by plan, in the cluster of `tests.e2e.karpenter.measure` whose nodes are of the wrong
family: the planner is asked as Karpenter's method asks it, and each plan is carried out at once. No control plane, no
Karpenter.

Usage: python -m tests.benchmarks.karpenter.moves [--nodes 200] [--min-saving-share 0.05] [--min-saving-per-eviction 0]
Prints a line for each plan: price of an hour, pods moved so far, pods moved for each unit saved so far, nodes.
"""

from typing import Annotated, Any

import typer

from tests.builders import kubernetes as k8s
from tests.e2e.karpenter.wrong_sizes import WRONG_FAMILY, ZONE, ZONES
from trimtab.clients.in_process_planner import InProcessLink
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.places import destinations
from trimtab.v1 import plan_pb2

Json = dict[str, Any]
TYPES = {
    f"{family}-{cpu}x": (cpu, gib * cpu) for cpu in (1, 2, 4, 8, 16) for family, gib in (("c", 2), ("s", 4), ("m", 8))
}
"""Cores and GiB of the instance types of Karpenter's kwok provider that the NodePool allows."""
BUDGET = 10
"""One of so many nodes may leave at a time."""


def price_of(kind: str) -> float:
    """Return the price of an instance type as the kwok provider computes it."""
    cpu, gib = TYPES[kind]
    return 0.025 * cpu + 0.001 * gib * 2**30 / 1e9


class WrongFamily:
    """The cluster. nodes : instance type and zone by name; pods : Deployment and node by name."""

    def __init__(self, node_count: int) -> None:
        (kind,) = WRONG_FAMILY.kinds
        self.nodes = {f"old-{i:04d}": (kind, ZONES[i % len(ZONES)]) for i in range(node_count)}
        self.apps = {app.name: app for app in WRONG_FAMILY.apps_of(node_count)}
        self.pods: dict[str, tuple[str, str]] = {}
        self._owners = {name: k8s.replica_set(name, app.replicas) for name, app in self.apps.items()}
        self.moved = 0
        free, names = dict.fromkeys(self.nodes, 7900), list(self.nodes)
        for app in self.apps.values():
            need = _milli(app.cpu)
            for number in range(app.replicas):
                # As the scheduler does: the emptiest node, in the zones in turn if they are to be spread over.
                allowed = names[number % len(ZONES) :: len(ZONES)] if app.spread else names
                node = max(allowed, key=free.__getitem__)
                free[node] -= need
                self.pods[f"{app.name}-{number:04d}"] = (app.name, node)

    @property
    def price(self) -> float:
        """The price of all nodes for one hour."""
        return sum(price_of(kind) for kind, _ in self.nodes.values())

    def objects(self) -> list[Json]:
        """Return its objects, and a node group for each offering."""
        members: dict[tuple[str, str], list[str]] = {}
        for name, offer in self.nodes.items():
            members.setdefault(offer, []).append(name)
        return [
            *(_node(name, kind, zone) for name, (kind, zone) in self.nodes.items()),
            *(_group(kind, zone, members.get((kind, zone), [])) for kind in TYPES for zone in ZONES),
            *self._owners.values(),
            *(k8s.pdb(app.name, app.replicas // 4, labels={"app": app.name}) for app in self.apps.values()),
            *(self._pod(name, app, node) for name, (app, node) in self.pods.items()),
        ]

    def _pod(self, name: str, app: str, node: str) -> Json:
        of, labels = self.apps[app], {"app": app}
        rules = [k8s.spread(k8s.labelled(**labels))] if of.spread else []
        return k8s.pod(
            name, of.cpu, of.memory, node=node, labels=labels, owner=self._owners[app], spread=rules, phase="Running"
        )

    def carry_out(self, wave: plan_pb2.ReplacementWave) -> None:
        """Replace the nodes of a wave."""
        names = {one.name: f"new-{self.moved:05d}-{at}" for at, one in enumerate(wave.new_nodes)}
        for one in wave.new_nodes:
            kind, zone = one.node_group.split("/")
            self.nodes[names[one.name]] = (kind, zone)
        for node in wave.leaving:
            del self.nodes[node.node]
        self.moved += len(wave.places.pods)
        for pod, to in destinations(wave.places).items():
            name = pod.partition("/")[2]
            self.pods[name] = (self.pods[name][0], names.get(to, to))


def request_of(cluster: WrongFamily, min_saving_share: float, min_saving_per_eviction: float) -> plan_pb2.PlanRequest:
    """Return what `requestOf` of the Go module asks for."""
    request = plan_pb2.PlanRequest(cluster="moves", decisions=[plan_pb2.Decision.REPLACEMENT])
    request.now.FromJsonString("2026-06-01T00:00:00Z")
    settings = request.settings
    settings.scale_down.skip_nodes_with_local_storage = settings.scale_down.skip_nodes_with_system_pods = False
    settings.planner.recent_eviction_ttl.FromSeconds(0)
    replacement = settings.replacement
    replacement.min_saving_share, replacement.min_saving_per_eviction = min_saving_share, min_saving_per_eviction
    replacement.stability_margin, replacement.max_waves = 0, 1
    replacement.max_leaving_nodes = replacement.max_surge_nodes = 100
    settings.planner.disruption_budgets.add(max_nodes=str(-(-len(cluster.nodes) // BUDGET)))
    return request


def main(
    nodes: Annotated[int, typer.Option()] = 200,
    min_saving_share: Annotated[float, typer.Option()] = 0.05,
    min_saving_per_eviction: Annotated[float, typer.Option()] = 0,
) -> None:
    """Plan until nothing saves enough."""
    cluster, link = WrongFamily(nodes), InProcessLink()
    before = cluster.price
    print(f"price {before:.2f}, {len(cluster.pods)} pods, {len(cluster.nodes)} nodes", flush=True)
    while True:
        snapshot = build_snapshot(decode_objects(cluster.objects())).snapshot
        request = request_of(cluster, min_saving_share, min_saving_per_eviction)
        waves = link.send(request, snapshot.SerializeToString()).replacement.waves
        if not waves:
            break
        cluster.carry_out(waves[0])
        each = cluster.moved / (before - cluster.price)
        print(
            f"price {cluster.price:.2f}, moved {cluster.moved}, {each:.1f} a unit, {len(cluster.nodes)} nodes",
            flush=True,
        )


def _milli(cpu: str) -> int:
    return int(cpu[:-1]) if cpu.endswith("m") else 1000 * int(cpu)


def _labels(kind: str, zone: str) -> dict[str, str]:
    return {"node.kubernetes.io/instance-type": kind, ZONE: zone}


def _node(name: str, kind: str, zone: str) -> Json:
    cpu, gib = TYPES[kind]
    return k8s.node(name, f"{1000 * cpu - 100}m", f"{1024 * gib - 10}Mi", str(16 * cpu), labels=_labels(kind, zone))


def _group(kind: str, zone: str, nodes: list[str]) -> Json:
    template, most = _node("template", kind, zone), len(nodes) + 1000
    return k8s.node_group(f"{kind}/{zone}", max_size=most, nodes=nodes, price=price_of(kind), template=template)


if __name__ == "__main__":
    typer.run(main)
