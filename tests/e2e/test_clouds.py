"""The guarantees of every cloud provider on a real API server: the contract tests, for the available clouds."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

import pytest

from tests.builders.cloud_promises import PROMISES
from tests.builders.clouds import Clock, World, cloud_groups
from tests.builders.cluster_api import ShortNames, machine_deployment
from tests.e2e.cluster_api_controllers import Controllers, completed, install
from tests.e2e.control_plane.control_plane import ControlPlane
from trimtab.actuator.cloud.clusterapi.cloud import ClusterApiCloud
from trimtab.actuator.cloud.clusterapi.objects import OPTIONS, PRICE
from trimtab.actuator.cloud.kwok.cloud import KwokCloud
from trimtab.actuator.cloud.kwok.groups import read_group
from trimtab.actuator.cloud.kwok.ledger import NAME
from trimtab.actuator.cloud.table import KwokSettings
from trimtab.actuator.kube.api import KubeApi, connect

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module", autouse=True)
def content(plane: ControlPlane) -> None:
    install(plane)


@contextmanager
def clusterapi(plane: ControlPlane, api: KubeApi) -> Iterator[World]:
    """MachineDeployments, with what their controllers do."""
    controllers = Controllers(api)
    large = machine_deployment("g", 1, 6, 3, cpu="8", memory="32Gi", labels="pool=a", taints="team=web:NoSchedule")
    large["metadata"]["annotations"] |= {PRICE: "0.4", OPTIONS + "scaledownunneededtime": "7m"}
    for item in (large, machine_deployment("h", 0, 2, 0, cpu="4", memory="16Gi")):
        controllers.put("machinedeployments", completed(item))
    controllers.settle()
    try:
        yield World(ShortNames(ClusterApiCloud(api), cast(Any, controllers)), controllers.settle)
    finally:
        controllers.clear()


@contextmanager
def kwok(plane: ControlPlane, api: KubeApi) -> Iterator[World]:
    """Node objects, on a clock that moves only when set."""
    clock = Clock()
    groups = {group.name: group for group in map(read_group, cloud_groups(nodes=False))}
    cloud = KwokCloud(api, groups, KwokSettings(node_start_s=3, instance_delete_s=2), clock, clock)

    def settle() -> None:
        clock.now_s += 30
        cloud.resync()

    cloud.open()
    settle()
    try:
        yield World(cloud, settle)
    finally:
        plane.kubectl("delete", "nodes", "--all")
        plane.kubectl("delete", "configmap", "-n", "kube-system", NAME)


CLOUDS: list[Callable[[ControlPlane, KubeApi], AbstractContextManager[World]]] = [clusterapi, kwok]


@pytest.mark.parametrize("cloud", CLOUDS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("promise", PROMISES, ids=lambda one: one.__name__)
def test_every_promise_holds(
    plane: ControlPlane,
    cloud: Callable[[ControlPlane, KubeApi], AbstractContextManager[World]],
    promise: Callable[[World], None],
) -> None:
    api = connect(plane.kubeconfig("admin"))
    try:
        with cloud(plane, api) as world:
            promise(world)
    finally:
        api.close()
