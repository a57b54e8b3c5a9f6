"""Random clusters with pods that share claims: whatever is decided, devices suffice and sharers are together."""

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import device_objects as dra
from tests.builders import kubernetes as k8s
from tests.builders.examples import examples
from tests.builders.scale_up import NOW_S
from tests.certificates import whole_plan
from trimtab.places import destinations, new_nodes, on_existing
from trimtab.planner.decisions.device_plan import plan_devices
from trimtab.planner.device_amounts.planned import planned_snapshot
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

Json = dict[str, Any]
CLASS = dra.device_class("gpu", f'device.driver == "{dra.DRIVER}"')
DEVICES = 4
"""Of each node."""


def drawn(seed: int) -> pb.ClusterSnapshot:
    """Return nodes with devices; sets of pods that share a claim, on one node or waiting; and pods with their own."""
    random, owner = Random(seed), k8s.replica_set("web", 99)
    names = [f"n{at}" for at in range(random.randint(1, 4))]
    objects: list[Json] = [CLASS, dra.claim_template(), owner, k8s.node_group("gpu", nodes=names, max_size=9)]
    objects += [one for name in names for one in (k8s.node(name, cpu="8"), dra.gpus(name, DEVICES))]
    free = dict.fromkeys(names, DEVICES)
    for number in range(random.randint(1, 4)):
        users = [f"s{number}-{at}" for at in range(random.randint(1, 4))]
        count, cpu, name = random.randint(1, 3), random.choice(["500m", "1", "2"]), f"shared-{number}"
        node = random.choice([*(one for one in names if free[one] >= count), ""])
        held = [f"{node}/gpu-{DEVICES - free[node] + at}" for at in range(count)] if node else []
        free |= {node: free[node] - count} if node else {}
        spec = dra.claim_spec(dra.request(count=count))
        objects.append(dra.resource_claim(name, spec, devices=held, node=node, users=users if node else ()))
        more = {"templates": {"own": "one-gpu"}} if not node and random.random() < 0.3 else {}
        objects += [
            dra.claiming_pod(user, claims={"x": name}, node=node, owner=owner, cpu=cpu, **more) for user in users
        ]  # fmt: skip
    waiting = range(random.randint(0, 3))
    objects += [dra.claiming_pod(f"p{at}", templates={"x": "one-gpu"}, owner=owner, cpu="1") for at in waiting]
    return k8s.snapshot_of(*objects)


def answered(message: pb.ClusterSnapshot) -> plan_pb2.PlanResponse:
    """Return a plan that the certificate has nothing against."""
    request = plan_pb2.PlanRequest(decisions=(plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN))
    request.now.seconds = NOW_S
    request.settings.scale_down.utilization_threshold = 0.9
    answer = plan_devices(planned_snapshot(canonicalize(message)), request, None, Work()).answer
    assert whole_plan.offences(message, request.settings, answer, NOW_S) == []
    return answer


@given(st.integers(0, 10**6))
@examples(300)
def test_pods_that_share_a_claim_get_places_together(seed: int) -> None:
    message = drawn(seed)
    answer = answered(message)
    on_new = {f"{group}#{at}": pods for group, nodes in new_nodes(answer.scale_up).items()
              for at, pods in enumerate(nodes)}  # fmt: skip
    node_of = {pod: node for node, pods in on_new.items() for pod in pods}
    node_of |= on_existing(answer.scale_up) | destinations(answer.scale_down.places)
    pods = canonicalize(message).pods
    sets: dict[str, set[str]] = {}
    for at in range(len(pods.spec)):
        name = pods.name.get(at)
        if name.startswith("s"):
            sets.setdefault(name.partition("-")[0], set()).add(node_of.get(f"default/{name}", ""))
    # All of them, or none: the pods of a node that stays are in no list.
    assert {len(nodes) for nodes in sets.values()} == {1}
