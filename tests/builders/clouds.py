"""The same two node groups in every cloud: "g" (1 to 6, target 3, all running) and "h" (0 to 2, empty)."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import grpc
from opentelemetry.metrics import NoOpMeter

from tests.builders import aws as fake_aws
from tests.builders import cluster_api as fake_capi
from tests.builders.json_api import JsonApiServer
from tests.builders.kubernetes import Json, node, node_group
from trimtab.actuator.cloud.aws.api import AwsApi, Reader
from trimtab.actuator.cloud.aws.catalogue import TAGS
from trimtab.actuator.cloud.aws.cloud import AwsCloud
from trimtab.actuator.cloud.clusterapi.cloud import ClusterApiCloud
from trimtab.actuator.cloud.externalgrpc.calls import ProviderCalls
from trimtab.actuator.cloud.externalgrpc.cloud import ExternalCloud
from trimtab.actuator.cloud.kwok.cloud import KwokCloud
from trimtab.actuator.cloud.kwok.groups import read_group
from trimtab.actuator.cloud.options import ANNOTATION_PREFIX
from trimtab.actuator.cloud.provider import CloudProvider
from trimtab.actuator.cloud.table import AwsSettings, KwokSettings
from trimtab.actuator.service.app import Actuator
from trimtab.actuator.service.external.servicer import external_registration
from trimtab.actuator.service.settings import ActuatorSettings
from trimtab.actuator.settings import DeleteSettings, GrowSettings, WorkSettings
from trimtab.actuator.store.records import MemoryStore
from trimtab.clients.simulation.cloud.provider import MemoryCloud
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.controllers import Delays
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.port_security import PortSecurity
from trimtab.common.rpc.retries import attempts
from trimtab.common.rpc.server import ServerSettings, Shell

START_S = 1_800_000_000.0


class World(NamedTuple):
    """A cloud; `settle` makes its machines start and end, `slow` makes each call behind it take so many seconds."""

    cloud: CloudProvider
    settle: Callable[[], None]
    slow: Callable[[float], None] = lambda _seconds: None


class NoNodes:
    """A cluster in which no instance has a Node object."""

    def list_nodes(self) -> list[Any]:
        return []


NO_NODES: Any = NoNodes()


class Clock:
    """A clock that moves only when set, or in `sleep`."""

    def __init__(self) -> None:
        self.now_s = START_S
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


def cloud_groups(nodes: bool) -> list[Json]:
    """Return the groups as objects; with `nodes`, "g" names its initial nodes."""
    template = node("template", cpu="8", memory="32Gi", labels={"pool": "a"}, taints=["team=web:NoSchedule"])
    names = ["g-0", "g-1", "g-2"] if nodes else None
    large = node_group("g", 1, 6, target=3, nodes=names, template=template, price=0.4)
    large["metadata"]["annotations"] = {ANNOTATION_PREFIX + "scaledownunneededtime": "7m"}
    small = node_group("h", 0, 2, target=0, nodes=[] if nodes else None, template=node("template", cpu="4"))
    return [large, small]


def simulated_cluster(clock: Clock, objects: Sequence[Json] = ()) -> SimulatedCluster:
    """Return the cluster behind the cloud `memory`; objects : replace the default ones."""
    machines = [node(f"g-{number}", cpu="8", memory="32Gi") for number in range(3)]
    delays = Delays(node_start_s=3, instance_delete_s=2)
    made = list(objects) or [*machines, *cloud_groups(nodes=True)]
    return SimulatedCluster(made, None, delays, clock, time.sleep)


def slow_calls(cluster: SimulatedCluster) -> Callable[[float], None]:
    """Return a function that makes the calls of the cloud behind a cluster slow."""

    def slow(seconds: float) -> None:
        cluster.faults.clear()
        for operation in ("node_groups", "instances", "instance_states", "delete_instances", "set_size"):
            cluster.faults.add(Fault(operation, delay_s=seconds))

    return slow


@contextmanager
def memory() -> Iterator[World]:
    """The simulated cluster's cloud."""
    clock = Clock()
    cluster = simulated_cluster(clock)

    def settle() -> None:
        clock.now_s += 30

    yield World(MemoryCloud(cluster), settle, slow_calls(cluster))


@contextmanager
def kwok(**settings: Any) -> Iterator[World]:
    """The cloud of Node objects, over an API server on loopback."""
    clock = Clock()
    with JsonApiServer() as server:
        groups = {group.name: group for group in map(read_group, cloud_groups(nodes=False))}
        behaviour = KwokSettings(node_start_s=3, instance_delete_s=2, **settings)
        cloud = KwokCloud(server.api(), groups, behaviour, clock, clock)

        def settle() -> None:
            clock.now_s += 30
            cloud.resync()

        cloud.open()
        settle()
        yield World(cloud, settle, partial(setattr, server, "delay_s"))


SETTINGS = ActuatorSettings(
    work=WorkSettings(
        delete=DeleteSettings(poll_s=0.02, retry_s=0.02),
        grow=GrowSettings(retry_s=0.02),
    )
)


class ExternalWorld(NamedTuple):
    """An actuator that serves the Cluster Autoscaler on the simulated cluster, and a connection to it."""

    cluster: SimulatedCluster
    actuator: Actuator
    channel: grpc.Channel
    settle: Callable[[], None]
    clock: Clock


@contextmanager
def external_actuator(
    port: PortSecurity | None = None,
    security: ChannelSecurity | None = None,
    objects: Sequence[Json] = (),
) -> Iterator[ExternalWorld]:
    """An actuator with the cloud `memory`, as external cloud provider; objects : replace the default cluster."""
    clock = Clock()
    cluster = simulated_cluster(clock, objects)
    actuator = Actuator(MemoryStore(), cluster, MemoryCloud(cluster), NoOpMeter("test"), SETTINGS)
    settings = ServerSettings(security=port or PortSecurity())
    with Shell("test", [external_registration(actuator)], settings) as shell:
        actuator.start()
        with connect(shell.address, security or ChannelSecurity()) as channel:

            def settle() -> None:
                clock.now_s += 30

            yield ExternalWorld(cluster, actuator, channel, settle, clock)
        actuator.stop()


@contextmanager
def externalgrpc() -> Iterator[World]:
    """Our own external cloud provider, as a cloud."""
    with external_actuator() as world:
        yield World(
            ExternalCloud(ProviderCalls(world.channel, 60.0), steady=world.clock),
            world.settle,
            slow_calls(world.cluster),
        )


def aws_cloud(proxy: fake_aws.AwsProxy, settings: AwsSettings, clock: Callable[[], float] = time.monotonic) -> AwsCloud:
    """Return the cloud behind a proxy; pauses are short."""
    api = AwsApi(fake_aws.REGION, proxy.address)
    return AwsCloud(api, settings, Reader(api, attempts(6, 0.001, 0.01)), clock=clock)


@contextmanager
def aws() -> Iterator[World]:
    """Auto Scaling groups at moto's server."""
    with fake_aws.aws() as proxy, TemporaryDirectory() as directory:
        prices = Path(directory) / "prices.yaml"
        prices.write_text("m5.2xlarge: {onDemand: 0.4, spot: 0.1}")
        tags = {
            "owner": "trimtab",
            TAGS + "label/pool": "a",
            TAGS + "taint/team": "web:NoSchedule",
            TAGS + "autoscaling-options/scaledownunneededtime": "7m",
        }
        for name, kind, sizes in (("g", "m5.2xlarge", (1, 6, 3)), ("h", "m5.xlarge", (0, 2, 0))):
            fake_aws.launch_template(name, kind)
            fake_aws.scaling_group(name, sizes, tags=tags if name == "g" else {"owner": "trimtab"})
        settings = AwsSettings(tags={"owner": "trimtab"}, prices=prices)
        yield World(aws_cloud(proxy, settings), lambda: None, partial(setattr, proxy, "delay_s"))


@contextmanager
def clusterapi() -> Iterator[World]:
    """MachineDeployments on an API server on loopback."""
    with JsonApiServer() as server:
        controllers = fake_capi.fill(server)
        cloud = fake_capi.ShortNames(ClusterApiCloud(server.api()), controllers)
        yield World(cloud, controllers.settle, partial(setattr, server, "delay_s"))


WORLDS: dict[str, Callable[[], Any]] = {
    "memory": memory,
    "kwok": kwok,
    "externalgrpc": externalgrpc,
    "aws": aws,
    "clusterapi": clusterapi,
}
"""Every cloud, by name."""
