"""The actuator on Cluster API: groups that it finds grow from zero, shrink by the machine that is named, and end where
nobody needs them, with the rights of the chart and no others.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import workloads
from tests.e2e.actuator_process import all_ready, apply, deletion_of, listed, until
from tests.e2e.cluster_api_controllers import Controllers, install, scalable
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries
from tests.e2e.granted_rights import grants_by_account, requests_of
from tests.e2e.helm.binary import rendered
from tests.e2e.rounds_over_plane import Rounds, rounds_of
from trimtab.actuator.cloud.clusterapi.objects import DELETED
from trimtab.actuator.kube.api import connect
from trimtab.clients.loop.rounds import RoundResult, RoundSettings
from trimtab.v1 import actuator_pb2, plan_pb2

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
SLOW_S = 120.0
USER = "system:serviceaccount:trimtab:trimtab-actuator"
BLUE, GREEN = "MachineDeployment/default/blue", "MachinePool/default/green"
CAPACITY = {"cpu": "4", "memory": "16Gi"}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    state = tmp_path_factory.mktemp("plane") / "state"
    with ControlPlane(cached_binaries(), state, audited=[USER], audits_reads=True) as started:
        install(started)
        yield started


@pytest.fixture
def controllers(plane: ControlPlane) -> Iterator[Controllers]:
    """Three machines of "blue", none of "green", and one of a MachineDeployment that is not a node group."""
    api = connect(plane.kubeconfig("admin"))
    made = Controllers(api)
    made.put("machinedeployments", scalable("MachineDeployment", "blue", 3, (1, 4), labels="pool=blue", **CAPACITY))
    made.put("machinedeployments", scalable("MachineDeployment", "other", 1, None))
    made.put("machinepools", scalable("MachinePool", "green", 0, (0, 5), labels="pool=green", **CAPACITY))
    made.settle()
    with made.acting():
        yield made
    made.clear()
    api.close()


def granted(plane: ControlPlane) -> list[Json]:
    """Grant the actuator's account what the chart does; return the roles."""
    objects = rendered('actuator.cloud="clusterapi"', "createNamespace=true", "nodeGroups=[]")
    rights = [item for item in objects if item["apiVersion"].startswith("rbac.") or item["kind"] == "ServiceAccount"]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "trimtab"}}
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": [namespace, *rights]})
    plane.kubectl("apply", "-f", "-", stdin=items)
    plane.write_kubeconfig("actuator", plane.kubectl("create", "token", "trimtab-actuator", "-n", "trimtab").strip())
    return rights


def options(plane: ControlPlane, directory: Path) -> list[str]:
    """Options of an actuator with the rights of its account."""
    directory.mkdir()
    return [
        f"--state-dir={directory / 'state'}", f"--address-file={directory / 'address'}",
        f"--kubeconfig={plane.kubeconfig('actuator')}", "--cloud=clusterapi", "--namespace=trimtab", "--leader-elect",
        "--delay-after-taint=0.3", "--drain-poll=0.2", "--eviction-retry=0.5", "--delete-poll=0.2",
        "--log-level=warning",
    ]  # fmt: skip


def settings() -> RoundSettings:
    """Return settings of a loop without node groups from files, which removes unneeded nodes soon."""
    plan = plan_pb2.PlanSettings()
    plan.scale_down.unneeded_time.FromSeconds(1)
    for none in (plan.scale_down.delay_after_add, plan.scale_down.unremovable_node_recheck_timeout):
        none.SetInParent()
    return RoundSettings("e2e", (plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN), plan)


def sizes(rounds: Rounds) -> dict[str, tuple[int, int]]:
    """Target size and number of instances of each group."""
    return {one.id: (one.target_size, one.instance_count) for one in rounds.actuator.get_status().node_groups}


def until_sizes(rounds: Rounds, **expected: int) -> None:
    """Wait until groups have so many instances, and want no others."""
    wanted = {{"blue": BLUE, "green": GREEN}[name]: (size, size) for name, size in expected.items()}
    until(lambda: wanted.items() <= sizes(rounds).items(), SLOW_S, f"sizes {expected}")


def machines(controllers: Controllers, group: str) -> list[str]:
    return [
        one["metadata"]["name"] for one in controllers.listed("machines") if one["metadata"]["name"].startswith(group)
    ]


def nodes(plane: ControlPlane, pool: str) -> list[str]:
    return [one["metadata"]["name"] for one in listed(plane, "nodes") if one["metadata"]["labels"]["pool"] == pool]


def round_until(rounds: Rounds, reached: Any, what: str) -> None:
    """Make rounds until a condition holds."""

    last: list[RoundResult] = []

    def once() -> bool:
        last[:] = [rounds.run()]
        return bool(reached())

    try:
        until(once, SLOW_S, what)
    except AssertionError as late:
        answer, status = last[0].answer, rounds.actuator.get_status()
        raise AssertionError(f"{late}: {sizes(rounds)}\n{status}\n{answer.scale_up}\n{answer.scale_down}") from late


def check_rights(plane: ControlPlane, rights: list[Json]) -> None:
    """Check that all that was asked for is granted, and that what the cloud is granted was used."""
    made, forbidden = requests_of(plane.audit_log, USER)
    assert forbidden == set()
    granted_ones = grants_by_account(rights)[USER]
    assert [one for one in made if not any(grant.allows(one) for grant in granted_ones)] == []
    of_cloud = [grant for grant in granted_ones if grant.group == "cluster.x-k8s.io"]
    assert [grant for grant in of_cloud if not any(grant.allows(one) for one in made)] == [], "never used"


def test_groups_grow_from_zero_shrink_by_the_named_machine_and_end_where_no_pod_needs_them(
    plane: ControlPlane, controllers: Controllers, tmp_path: Path
) -> None:
    rights = granted(plane)
    with rounds_of(plane, tmp_path / "actuator", options(plane, tmp_path / "actuator"), settings()) as rounds:
        status = rounds.actuator.get_status()
        found = {one.id: (one.min_size, one.max_size, one.target_size) for one in status.node_groups}
        assert found == {BLUE: (1, 4, 3), GREEN: (0, 5, 0)}

        # Another client changes a size, through the subresource "scale".
        plane.kubectl("scale", "machinedeployments/blue", "--replicas=4")
        until_sizes(rounds, blue=4)

        # The third by name goes: without the mark it would be the first.
        names = machines(controllers, "blue")
        named = names[2]
        apply(plane, workloads.deployment("web", 8, "1500m", "blue"))
        until(lambda: all_ready(plane), SLOW_S, "web is ready")
        plane.kubectl("scale", "deployment/web", "--replicas=6")
        until(lambda: all_ready(plane), SLOW_S, "web is ready")
        assert [one.accepted for one in rounds.actuator.start_deletion(deletion_of("r", [named])).nodes] == [True]
        until(lambda: len(rounds.actuator.get_status().finished) == 1, SLOW_S, "the deletion is over")
        done = rounds.actuator.get_status().finished[0]
        assert (done.state, done.detail) == (actuator_pb2.DeletionState.DELETED, "")
        until_sizes(rounds, blue=3)
        assert machines(controllers, "blue") == [name for name in names if name != named]
        (blue,) = [one for one in controllers.listed("machinedeployments") if one["metadata"]["name"] == "blue"]
        assert (blue["spec"]["replicas"], DELETED in blue["metadata"]["annotations"]) == (3, True)
        until(lambda: all_ready(plane), SLOW_S, "web is ready")

        # Two of these pods have room on a node, and there is no node of the pool yet.
        apply(plane, workloads.deployment("batch", 3, "1500m", "green"))
        round_until(rounds, lambda: all_ready(plane), "batch is ready")
        until_sizes(rounds, blue=3, green=2)
        assert len(nodes(plane, "green")) == 2

        plane.kubectl("delete", "deployment", "batch", "web")
        until(lambda: not [pod for pod in listed(plane, "pods")], SLOW_S, "the pods are gone")
        round_until(
            rounds, lambda: not nodes(plane, "green") and len(nodes(plane, "blue")) == 1, "empty nodes are gone"
        )
        until_sizes(rounds, blue=1, green=0)
        assert not [one for one in rounds.actuator.get_status().finished if one.detail]
    assert len(nodes(plane, "other")) == 1, "a MachineDeployment without sizes is left alone"

    check_rights(plane, rights)
