"""The same ProvisioningRequests answered by a Cluster Autoscaler alone and by `trimtab run`, one after the other on one
control plane: requests that one node group serves get as many nodes or fewer, those that take two groups get nodes from
Trimtab only. Prints the figures of `tests/benchmarks/NOTES.md`.

The Cluster Autoscaler is upstream's, unchanged (`tests.e2e.autoscaler_process.UPSTREAM`); without it, skipped.
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e import workloads
from tests.e2e.actuator_process import apply, command, listed, running, serving, until
from tests.e2e.autoscaler_process import UPSTREAM, autoscaler
from tests.e2e.closed_loop import closed_loop
from tests.e2e.control_plane.control_plane import ControlPlane, free_ports
from tests.e2e.queue_stand_in import QueuedWorkload

Json = dict[str, Any]
pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
CHECK = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
DEFINITION = Path(__file__).parent / "provisioning-requests.yaml"
LIMIT_S, INTERVAL_S = 150.0, 2
ONE_GROUP, TWO_GROUPS, NO_GROUP = ("room", "one"), ("roles", "halves"), ("late",)


class Answer(NamedTuple):
    """status : of the condition Provisioned, "Failed" if that is true; seconds : from the request to it."""

    status: str
    seconds: float


def node_groups(system: str) -> list[Json]:
    """Return groups of pools of their own for each system, of which pods choose the pool."""
    most = {"one": (4,), "head": (1,), "worker": (3,), "half": (2, 3), "few": (1,)}
    made = []
    for pool, sizes in most.items():
        for at, size in enumerate(sizes):
            group = workloads.group(f"{system}-{pool}-{at}", size, pool=f"{system}-{pool}")
            group["spec"]["nodeSelector"]["part"] = str(at)
            group["spec"]["template"]["metadata"]["labels"]["part"] = str(at)
            made.append(group)
    return made


def requests(plane: ControlPlane, system: str) -> dict[str, QueuedWorkload]:
    """Return what is asked for: pods of 3 of the 4 CPUs of a node, those for existing room of 1."""

    def asked(name: str, kind: str, sets: dict[str, int], **parameters: str) -> QueuedWorkload:
        cpu = "1" if kind == CHECK else "3"
        pods = {pool: (workloads.template(name, cpu, f"{system}-{pool}"), count) for pool, count in sets.items()}
        return QueuedWorkload(plane, f"{system}-{name}", kind, pods, parameters)

    return {
        "room": asked("room", CHECK, {"there": 3}),
        "one": asked("one", ATOMIC, {"one": 4}),
        "roles": asked("roles", ATOMIC, {"head": 1, "worker": 3}),
        "halves": asked("halves", ATOMIC, {"half": 5}),
        "late": asked("late", ATOMIC, {"few": 2}, ValidUntilSeconds="10"),
    }


def answer_of(request: QueuedWorkload) -> str:
    """Return what has been said of a request, "" = nothing."""
    found = request.conditions()
    return "Failed" if found.get("Failed", ("",))[0] == "True" else found.get("Provisioned", ("",))[0]


def answers(asked: dict[str, QueuedWorkload], wanted: dict[str, str]) -> dict[str, Answer]:
    """Submit requests and return the answers, once they are the wanted ones or the time is over."""
    begin, found = time.monotonic(), dict[str, Answer]()
    for request in asked.values():
        request.submit()
    while time.monotonic() < begin + LIMIT_S and {name: one.status for name, one in found.items()} != wanted:
        for name, request in asked.items():
            said = answer_of(request)
            if said and (name not in found or found[name].status != said):
                found[name] = Answer(said, time.monotonic() - begin)
        time.sleep(0.2)
    return found


def nodes(plane: ControlPlane, system: str) -> Counter[str]:
    """Return how many nodes have come for the pools of a system."""
    pools = [one["metadata"]["labels"].get("pool", "") for one in listed(plane, "nodes")]
    return Counter(pool.removeprefix(f"{system}-") for pool in pools if pool.startswith(f"{system}-"))


@contextmanager
def autoscaler_alone(plane: ControlPlane, directory: Path) -> Iterator[None]:
    options = command(plane, directory / "actuator", node_groups("ca"), "--serve-externalgrpc")
    with ExitStack() as parts:
        process_, client = parts.enter_context(running(directory / "actuator", options))
        serving(process_, client)
        address = (directory / "actuator" / "address").read_text().strip()
        (port,) = free_ports(1)
        flags = ("--enable-provisioning-requests=true", "--leader-elect=false", f"--address=127.0.0.1:{port}")
        parts.enter_context(autoscaler(plane, directory, address, *flags, variable=UPSTREAM))
        yield


@contextmanager
def trimtab_run(plane: ControlPlane, directory: Path) -> Iterator[None]:
    with closed_loop(plane, directory, node_groups("tt"), {}, interval_s=INTERVAL_S):
        yield


@pytest.mark.timeout(700)
def test_requests_of_one_group_cost_no_more_and_those_of_two_groups_are_served(
    plane: ControlPlane, tmp_path: Path
) -> None:
    plane.kubectl("create", "-f", str(DEFINITION))
    until(lambda: "provisioningrequests" in plane.kubectl("api-resources"), LIMIT_S, "the kind is served")
    served = {name: "True" for name in (*ONE_GROUP, *TWO_GROUPS)} | {"late": "Failed"}
    alone = {name: "True" if name in ONE_GROUP else "False" for name in served}
    said, came = {}, {}
    for system, run, wanted in (("ca", autoscaler_alone, alone), ("tt", trimtab_run, served)):
        apply(plane, *workloads.nodes(f"{system}-there", 1, pool=f"{system}-there"))
        (tmp_path / system).mkdir()
        with run(plane, tmp_path / system):
            said[system] = answers(requests(plane, system), wanted)
            until(lambda system=system: nodes(plane, system)["one"] == 4, LIMIT_S, "the nodes of one group")  # type: ignore[misc]
            came[system] = nodes(plane, system)
        print(system, said[system], dict(came[system]))
        plane.kubectl("delete", "-n", "default", "provreq", "--all")
    assert {name: one.status for name, one in said["tt"].items()} == served
    assert {name: one.status for name, one in said["ca"].items()} == alone
    assert came["ca"] == {"there": 1, "one": 4}
    assert came["tt"] == {"there": 1, "one": 4, "head": 1, "worker": 3, "half": 5}
