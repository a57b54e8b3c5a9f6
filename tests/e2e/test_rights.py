"""The chart's objects on a real API server: all are taken, pods may start, and the parts use the rights they get and no
others: the API server's audit log says which."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.capacity_buffers import buffer, template
from tests.builders.capacity_requests import request
from tests.builders.tls import OwnCa, make_ca
from tests.e2e import workloads
from tests.e2e.actuator_process import all_ready, apply, command, deletion_of, listed, running, serving, until
from tests.e2e.control_plane.control_plane import (
    DEVICE_GATES,
    GANG_GATES,
    SERVED,
    ControlPlane,
    cached_binaries,
    free_ports,
)
from tests.e2e.granted_rights import Grant, grants_by_account, requests_of
from tests.e2e.helm.binary import rendered
from tests.e2e.loop_processes import planner_at, process
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.v1 import plan_pb2

pytestmark = pytest.mark.e2e

PARTS = ("planner", "actuator", "loop", "steer")
USERS = {part: f"system:serviceaccount:trimtab:trimtab-{part}" for part in PARTS}
TOKENS = 'access.tokenAudience="trimtab"'
SLOW_S = 240.0
POLICY = f"""
apiVersion: trimtab.dev/v1
kind: AccessPolicy
callers:
  - identities: ["{USERS["loop"]}"]
    rights: [plan, read, delete, taint, grow, replace, podCosts, bufferStatus]
    clusters: ["*"]
  - identities: ["{USERS["steer"]}"]
    rights: [plan]
    clusters: ["*"]
"""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    state = tmp_path_factory.mktemp("plane") / "state"
    users = list(USERS.values())
    gates = (*DEVICE_GATES, *GANG_GATES)
    with ControlPlane(
        cached_binaries(), state, audited=users, audits_reads=True, feature_gates=gates, served=SERVED
    ) as started:
        for kinds in ("capacity-buffers.yaml", "node-pools.yaml", "pod-groups.yaml", "provisioning-requests.yaml"):
            started.kubectl("create", "-f", str(Path(__file__).parent / kinds))
        apply(started, *rendered("createNamespace=true"))
        yield started


def test_pods_of_all_parts_are_taken_in_a_namespace_for_restricted_ones(plane: ControlPlane) -> None:
    def parts() -> list[str]:
        pods = [one["metadata"] for one in listed(plane, "pods") if one["metadata"]["namespace"] == "trimtab"]
        return sorted(one["labels"]["app.kubernetes.io/name"] for one in pods)

    until(lambda: len(parts()) == 4, SLOW_S, "the controllers make the pods")
    assert parts() == ["trimtab-actuator", "trimtab-loop", "trimtab-planner", "trimtab-planner"]
    plane.kubectl("delete", "deployments,statefulsets", "-n", "trimtab", "--all")


def test_every_right_that_is_used_is_granted_and_every_right_that_is_granted_is_used(
    plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both ways of running, with tokens; the CRD and the namespace are there.
    objects = [*rendered(TOKENS), *rendered("loop.enabled=false", "steer.enabled=true", TOKENS)]
    rights = [item for item in objects if item["apiVersion"].startswith("rbac.") or item["kind"] == "ServiceAccount"]
    plane.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": rights}))
    grants = grants_by_account(rights)
    assert grants.keys() == set(USERS.values())

    fill(plane)
    ca = make_ca(tmp_path / "ca")
    (tmp_path / "policy.yaml").write_text(POLICY)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    show(plane, ca, monkeypatch, "loop")
    actuator = [*protected(plane, ca, "actuator"), "--namespace=trimtab", "--leader-elect"]
    options = command(plane, tmp_path / "a", [workloads.group("pool", 10)], *actuator)
    with (
        planner_at(address, tmp_path, *protected(plane, ca, "planner")),
        running(tmp_path / "a", options) as (running_actuator, client),
    ):
        serving(running_actuator, client)
        until(lambda: client.get_info().leader, SLOW_S, "leading")
        order(plane, client)
        at = (tmp_path / "a" / "address").read_text().strip()
        with process(*part_of(plane, tmp_path, "run", address), f"--actuator={at}", log=tmp_path / "loop.log"):
            until_used(plane, grants, "planner", "actuator", "loop")
        show(plane, ca, monkeypatch, "steer")
        with process(*part_of(plane, tmp_path, "steer", address), log=tmp_path / "steer.log"):
            until_used(plane, grants, "steer")

    for part, user in USERS.items():
        made, forbidden = requests_of(plane.audit_log, user)
        assert forbidden == set(), part
        beyond = [one for one in made if not any(grant.allows(one) for grant in grants[user])]
        assert beyond == [], f"{part} does what the chart does not grant"


def unused(plane: ControlPlane, grants: dict[str, set[Grant]], *parts: str) -> list[tuple[str, Grant]]:
    """What these parts may do and have not done yet."""
    made = {part: requests_of(plane.audit_log, USERS[part])[0] for part in parts}
    return [
        (part, grant)
        for part in parts
        for grant in sorted(grants[USERS[part]])
        if not any(grant.allows(one) for one in made[part])
    ]


def until_used(plane: ControlPlane, grants: dict[str, set[Grant]], *parts: str) -> None:
    """Wait until these parts have done all that they may do; fail with what is left."""
    try:
        until(lambda: not unused(plane, grants, *parts), SLOW_S, "all rights are used")
    except AssertionError as late:
        raise AssertionError(f"never used: {unused(plane, grants, *parts)}") from late


def config(plane: ControlPlane, part: str) -> Path:
    """The kubeconfig of a part's account."""
    name = f"trimtab-{part}"
    if not plane.kubeconfig(name).exists():
        plane.write_kubeconfig(name, plane.kubectl("create", "token", name, "-n", "trimtab").strip())
    return plane.kubeconfig(name)


def show(plane: ControlPlane, ca: OwnCa, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Have callers that are started from here on show the token of a part's account."""
    token = ca.directory / f"{part}.token"
    token.write_text(plane.kubectl("create", "token", f"trimtab-{part}", "-n", "trimtab", "--audience=trimtab"))
    monkeypatch.setenv("TRIMTAB_TLS_CA", str(ca.ca))
    monkeypatch.setenv("TRIMTAB_TOKEN_FILE", str(token))


def protected(plane: ControlPlane, ca: OwnCa, part: str) -> list[str]:
    """Options of a service with TLS, tokens and a policy."""
    return [
        f"--tls-cert={ca.directory / 'server.crt'}",
        f"--tls-key={ca.directory / 'server.key'}",
        f"--policy={ca.directory.parent / 'policy.yaml'}",
        "--token-audience=trimtab",
        f"--token-kubeconfig={config(plane, part)}",
        *([f"--kubeconfig={config(plane, part)}"] if part == "actuator" else []),
    ]


def part_of(plane: ControlPlane, folder: Path, name: str, planner: str) -> tuple[object, ...]:
    groups = folder / "groups.json"
    groups.write_text(json.dumps(workloads.group("pool", 10)))
    return (
        "trimtab.clients.cli", "run", f"--act={'all' if name == 'run' else name}", f"--planner={planner}",
        "--namespace=trimtab", "--interval=0.5",
        "--cluster-name=e2e", f"--kubeconfig={config(plane, 'loop' if name == 'run' else name)}",
        f"--node-groups={groups}",
    )  # fmt: skip


def fill(plane: ControlPlane) -> None:
    """Nodes, pods, room that is asked for, and pods that have no room, so that there is something to tell."""
    chunk = template("chunk", of=workloads.template("web", "900m", "pool"))
    spare = buffer("spare", podTemplateRef={"name": "chunk"}, replicas=2)
    until(lambda: "capacitybuffers" in plane.kubectl("api-resources", "--api-group=autoscaling.x-k8s.io"), SLOW_S, "it")
    until(lambda: "provisioningrequests" in plane.kubectl("api-resources"), SLOW_S, "they")
    until(lambda: "nodeclaims" in plane.kubectl("api-resources", "--api-group=karpenter.sh"), SLOW_S, "they")
    apply(plane, *workloads.nodes("n", 3), workloads.deployment("web", 6), chunk, spare, request("asked", ("chunk", 1)))
    until(lambda: all_ready(plane), SLOW_S, "workloads ready")


def order(plane: ControlPlane, client: ActuatorClient) -> None:
    """Have the actuator do all that it can be told to."""
    running_pods = [one for one in listed(plane, "pods") if one["metadata"]["namespace"] == "default"]
    pods = [one["metadata"]["name"] for one in running_pods]
    # Where the scheduler puts pods while nodes appear is chance: the node to drain must have some.
    drained = str(running_pods[0]["spec"]["nodeName"])
    tainted = next(name for name in ("n-1", "n-2") if name != drained)
    assert client.apply_taints([tainted]).tainted_count == 1
    owner = "ReplicaSet/default/web"
    plain = plan_pb2.PodCostGroup(owner=owner, pods=[f"default/{name}" for name in pods], costs=[3] * len(pods))
    assert client.apply_pod_costs([plain]).written_count == len(pods)
    ranked = plan_pb2.PodCostGroup(owner=owner, pods=plain.pods, costs=plain.costs, ranked_after_each_removal=True)
    client.apply_pod_costs([ranked])
    client.apply_pod_costs([], remove_others=True)
    assert [one.accepted for one in client.start_deletion(deletion_of("r", [drained])).nodes] == [True]
    until(lambda: len(client.get_status().finished) == 1, SLOW_S, "the deletion is over")
    assert client.get_status().finished[0].detail == ""
    apply(plane, workloads.deployment("large", 4, "3500m"), workloads.deployment("too-large", 1, "64"))
