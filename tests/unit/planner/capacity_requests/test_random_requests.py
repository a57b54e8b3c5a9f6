"""Random clusters, groups and requests: every answer passes the certificate, which proves all or nothing."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.capacity_requests import (
    ATOMIC,
    CHECK,
    CONSUMES,
    condition,
    plan_requests,
    pod_template,
    request,
)
from tests.builders.examples import examples
from tests.builders.kubernetes import Json, node, node_group, pod
from trimtab.v1.plan_pb2 import Decision


def random_objects(random: Random) -> list[Json]:
    """Return a small cluster whose groups run short, with requests in all states."""
    made: list[Json] = []
    pools, waits = ["a", "b"], random.random() < 0.5
    for number in range(random.randint(1, 4)):
        pool, cpu = random.choice(pools), random.choice(["2", "4", "8"])
        members = [f"n{number}-{at}" for at in range(random.randint(0, 3))]
        made += [node(name, cpu, labels={"pool": pool}) for name in members]
        target = len(members) + random.choice([0, 0, 1])
        price = random.choice([None, 1.0, 2.0, 3.0])
        template = node("t", cpu, labels={"pool": pool})
        most = target + random.randint(0, 4)
        more = {} if price is None else {"price": price}
        made.append(node_group(f"g{number}", 0, most, target=target, nodes=members, template=template, **more))
        made += [
            pod(
                f"p{number}-{at}",
                random.choice(["1", "1500m"]),
                node=random.choice([*([""] if waits else []), *members]),
            )
            for at in range(random.randint(0, 3) if waits or members else 0)
        ]
    for number in range(random.randint(1, 5)):
        sets = []
        for at in range(random.randint(1, 3)):
            selector: Json = {"nodeSelector": {"pool": random.choice(pools)}} if random.random() < 0.5 else {}
            spread: Json = {}
            if random.random() < 0.2:
                term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"set": f"{number}"}}}
                affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
                spread = {"affinity": affinity, "labels": {"set": f"{number}"}}
            template_name = f"t{number}-{at}"
            made.append(
                pod_template(
                    template_name, random.choice(["500m", "1", "2", "3"]), priority=number % 2, **selector, **spread
                )
            )
            sets.append((template_name, random.randint(1, 6)))
        conditions = [condition("Provisioned")] if random.random() < 0.3 else []
        class_name = random.choice([ATOMIC, ATOMIC, CHECK])
        made.append(request(f"r{number}", *sets, class_name=class_name, conditions=conditions))
        if random.random() < 0.3:
            made.append(
                pod(f"c{number}", "500m", node=random.choice(["", "n0-0"]), annotations={CONSUMES: f"r{number}"})
            )
    return made


@given(st.integers(0, 2**48))
@examples(60, 6)
def test_a_request_gets_room_for_all_of_its_pods_or_for_none(seed: int) -> None:
    random = Random(seed)
    settings: Json = {}
    if random.random() < 0.3:
        settings["scaleUp"] = {"maxNewNodes": random.randint(1, 4)}
    if random.random() < 0.3:
        settings["planner"] = {"limits": [{"resource": "cpu", "maximum": str(random.randint(4, 40) * 1000)}]}
    if random.random() < 0.3:
        settings["capacityRequests"] = {"provisionedWhen": "READY"}
    objects = random_objects(random)
    first = plan_requests(*objects, settings=settings)
    every = [Decision.CAPACITY_REQUESTS, Decision.SLACK, Decision.SCALE_UP, Decision.SCALE_DOWN]
    with_others = plan_requests(*objects, settings=settings, decisions=every)
    assert with_others.decision == first.decision
    growth = {split.node_group: split.new_size for split in first.decision.splits}
    for split in with_others.answer.scale_up.splits:
        assert split.current_size == growth.get(split.node_group, split.current_size)
        assert split.new_size <= split.max_size
