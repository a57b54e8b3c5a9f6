"""Names of nodes, pools, slices and devices decide which of several devices is taken, and nothing else."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.parity.device_documents import answers
from tests.parity.device_oracle.clusters import FEATURES, Clusters


def document(seed: int) -> dict[str, Any]:
    """Return a random cluster; its pods are asked about one by one, each as the only one."""
    return Clusters(seed).document("drawn") | {"features": FEATURES | {"FractionalCapacityRange": True}}


def renamed(
    found: dict[str, Any], node: Callable[[str], str], pool: Callable[[str], str], device: Callable[[str], str]
) -> Any:
    """Return a cluster with other names; slices get theirs from `device`."""
    copy = json.loads(json.dumps(found))
    for one in copy["nodes"]:
        one["metadata"]["name"] = node(one["metadata"]["name"])
    for one in copy["slices"]:
        one["metadata"]["name"] = device(one["metadata"]["name"])
        one["spec"]["pool"]["name"] = pool(one["spec"]["pool"]["name"])
        for place in (one["spec"], *one["spec"].get("devices", ())):
            if "nodeName" in place:
                place["nodeName"] = node(place["nodeName"])
        for each in one["spec"].get("devices", ()):
            each["name"] = device(each["name"])
    for one in copy["allocated"]:
        one["pool"], one["device"] = pool(one["pool"]), device(one["device"])
    return copy


@given(seed=st.integers(0, 10**6))
@examples(60)
def test_names_in_the_same_order_lead_to_the_same_devices(seed: int) -> None:
    found = document(seed)

    def longer(name: str) -> str:
        return f"x{name}"

    expected = answers(found, 36)
    for claim in (claim for pod in expected for one in pod for claim in one.get("claims", ())):
        claim["devices"] = [(name, driver, f"x{pool}", f"x{device}") for name, driver, pool, device in claim["devices"]]
        claim["nodes"] = f"x{claim['nodes']}" if isinstance(claim["nodes"], str) else claim["nodes"]
    assert answers(renamed(found, longer, longer, longer), 36) == expected


@given(seed=st.integers(0, 10**6), shuffle=st.integers(0, 10**6))
@examples(60)
def test_names_in_another_order_change_no_yes_or_no(seed: int, shuffle: int) -> None:
    found = document(seed)
    random = Random(shuffle)
    names = {*(f"d{at}" for at in range(8)), *(one["metadata"]["name"] for one in found["slices"])}
    drawn = dict(zip(sorted(names), random.sample(sorted(names), len(names)), strict=True))

    def other(name: str) -> str:
        return drawn[name]

    def reversed_name(name: str) -> str:
        return name[::-1]

    changed = renamed(found, lambda name: name, reversed_name, other)
    for pod in found["pods"]:
        for node in found["nodes"]:
            (before,), (after,) = (
                answers({**one, "pods": [pod], "nodes": [node]}, 37) for one in (found, changed)
            )  # fmt: skip
            # An error may hide behind a device that is found before.
            if "claims" in before[0] and "claims" in after[0]:
                assert bool(before[0]["claims"]) == bool(after[0]["claims"])
