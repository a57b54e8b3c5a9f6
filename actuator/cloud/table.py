"""All clouds of this build, in the order in which they are shown, with their options, and how one is opened: what its
function `wire` receives from the command line, and what it returns. The one place that lists clouds: the command line,
its checks, and the tests of chart, documents and extras follow it. A new cloud is a folder, the class of its options,
and a line.

The module of a cloud is loaded only when the cloud is chosen, so that no other one needs its packages; all options are
here, as the command line and its checks show those of all clouds. `memory` is for trials: its code lies beside the
simulator, which nothing here imports, so the table has its path as text. `wire` reads options and files before anything
is contacted. Durations in seconds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeVar, cast

import grpc
import typer

from trimtab.actuator.cloud.provider import CloudProvider
from trimtab.actuator.kube.cluster import ClusterApi
from trimtab.actuator.settings import KubeOptions, SettingError
from trimtab.common.kubernetes.names import RULE, is_label
from trimtab.common.kubernetes.registry import PermissionRule
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.extras import require_extra
from trimtab.common.rpc.server import Registration

if TYPE_CHECKING:
    # It needs the extra `kubernetes`, which not every cloud does.
    from trimtab.actuator.kube.api import KubeApi


T = TypeVar("T")


class OptionSections:
    """Options of the command line, by the class that declares them; a class that is absent has its defaults."""

    def __init__(self, *sections: object) -> None:
        self._sections = {type(section): section for section in sections}

    def of(self, kind: type[T]) -> T:
        """Return the options that a class declares."""
        section = self._sections.get(kind)
        return section if isinstance(section, kind) else kind()


class Opening(NamedTuple):
    """What `wire` of a cloud receives. `state_dir` exists; `stack` ends what the cloud begins. `options` : all sections
    of the command line, of which a cloud reads its own.
    """

    options: OptionSections
    state_dir: Path
    stack: ExitStack


class LiveCloud(NamedTuple):
    """A cloud over a connection. `prepare` runs before the first action of this process. `provider` : the cloud that
    the actuator calls.
    """

    provider: CloudProvider
    prepare: Callable[[], None] = lambda: None


class LiveWiring(NamedTuple):
    """A cloud for a live cluster: the permissions that it needs in the cluster, and its construction. `build` gets the
    connection and a function that returns whether this process may act; it makes no call. `rules` : the permissions,
    for the check at the start.
    """

    rules: Sequence[PermissionRule]
    build: "Callable[[KubeApi, Callable[[], bool]], LiveCloud]"


class OwnCluster(NamedTuple):
    """A cloud that has its cluster in this process, and serves it by additional services. `provider` : the cloud that
    the actuator calls; `registrations` : the additional gRPC services.
    """

    cluster: ClusterApi
    provider: CloudProvider
    registrations: tuple[Registration, ...] = ()


Wiring = LiveWiring | OwnCluster
Entry = Callable[[Opening], Wiring]


@dataclass(frozen=True)
class SimulationOptions:
    """The simulated cluster of the cloud `memory`. The defaults are those of its `Delays`."""

    cluster: Annotated[
        list[Path],
        typer.Option(help="Kubernetes objects to start from (.json, .yaml, .gz); may be given several times"),
    ] = field(default_factory=list)
    pod_start: Annotated[float, typer.Option(min=0, help="time until a pod becomes ready")] = 2.0
    pod_stop: Annotated[float, typer.Option(min=0, help="time until a deleted pod is gone")] = 1.0


@dataclass(frozen=True)
class MachineOptions:
    """How long machines take that `memory` and `kwok` pretend to have."""

    node_start: Annotated[float, typer.Option(min=0, help="time until a new node registers")] = 5.0
    instance_delete: Annotated[float, typer.Option(min=0, help="time until a deleted instance is gone")] = 2.0


@dataclass(frozen=True)
class KwokSettings:
    """Settings of the cloud."""

    # From the scale-up to the node.
    node_start_s: float = 3.0
    # From the request to the deletion of the node.
    instance_delete_s: float = 2.0
    # Share of calls that fail as if throttled, 0 to 1.
    call_failure_rate: float = 0.0
    # Share of new instances that never start, 0 to 1.
    start_failure_rate: float = 0.0
    # Seed of failures.
    seed: int = 0
    # Namespace of the ledger.
    namespace: str = "kube-system"
    # Pause between resyncs.
    poll_s: float = 0.2


_K = KwokSettings()


@dataclass(frozen=True)
class KwokOptions:
    """The cloud `kwok`; `--node-start` and `--instance-delete` count for it too."""

    cloud_config: Annotated[Path | None, typer.Option(help="NodeGroup objects of --cloud kwok (.yaml, .json)")] = None
    call_failure_rate: Annotated[float, typer.Option(min=0, max=1, help="share of cloud calls that fail")] = (
        _K.call_failure_rate
    )
    start_failure_rate: Annotated[float, typer.Option(min=0, max=1, help="share of instances that never start")] = (
        _K.start_failure_rate
    )
    seed: Annotated[int, typer.Option(help="seed of the failures")] = _K.seed


@dataclass(frozen=True)
class ExternalOptions:
    """The cloud `externalgrpc`: a provider that serves the Cluster Autoscaler."""

    cloud_address: Annotated[str, typer.Option(help="host:port of the provider of --cloud externalgrpc")] = ""
    cloud_ca: Annotated[
        Path | None, typer.Option(help="CA certificates for its certificate, PEM; none = plain text")
    ] = None
    cloud_cert: Annotated[Path | None, typer.Option(help="client certificate for it, PEM")] = None
    cloud_key: Annotated[Path | None, typer.Option(help="key of the client certificate, PEM")] = None
    cloud_timeout: Annotated[float, typer.Option(min=0.1, help="longest time for one call to the provider")] = 10.0

    def open_channel(self) -> grpc.Channel:
        """Open a channel to the provider; no call is made. Raises `ValueError`, `OSError`."""
        if not self.cloud_address:
            raise ValueError("--cloud externalgrpc needs --cloud-address, host:port of the provider")
        if (self.cloud_cert is None) != (self.cloud_key is None):
            raise ValueError("--cloud-cert and --cloud-key belong together; give both or none")
        if self.cloud_cert is not None and self.cloud_ca is None:
            raise ValueError("--cloud-cert needs --cloud-ca: without it the connection is in plain text")
        return connect(self.cloud_address, ChannelSecurity(self.cloud_ca, self.cloud_cert, self.cloud_key))


@dataclass(frozen=True)
class AwsSettings:
    """Settings of the cloud."""

    # "" = as boto3 finds it: AWS_REGION, its configuration.
    region: str = ""
    # Groups by name, and tags that a group must have all of ("" = any value). At least one of both.
    groups: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    # Address in place of AWS; "" = none.
    endpoint: str = ""
    # Prices by instance type; None = no file. And whether AWS is asked for those that the file does not have.
    prices: Path | None = None
    price_list: bool = False
    # How long what describes groups is kept; `refresh` and own changes end that sooner.
    max_age_s: float = 10.0
    # For how long a read may be older than a write.
    consistency_s: float = 30.0


def read_tags(text: str) -> dict[str, str]:
    """Return tags written as `KEY[=VALUE],…`. Raises `ValueError`."""
    tags: dict[str, str] = {}
    for part in (part.strip() for part in text.split(",")) if text.strip() else ():
        key, _, value = part.partition("=")
        if not key:
            raise ValueError(f"--aws-tags: {part!r} is not KEY or KEY=VALUE")
        tags[key] = value
    return tags


@dataclass(frozen=True)
class AwsOptions:
    """The cloud `aws`: Auto Scaling groups. Credentials come from where boto3 finds them."""

    aws_region: Annotated[str, typer.Option(help="region; empty = as boto3 finds it, for example in AWS_REGION")] = ""
    aws_groups: Annotated[str, typer.Option(help="NAME,… of the Auto Scaling groups to manage")] = ""
    aws_tags: Annotated[str, typer.Option(help="KEY[=VALUE],… : manage the groups that have all of these tags")] = ""
    aws_prices: Annotated[
        Path | None, typer.Option(help="prices by instance type, or answers of AWS with prices (.yaml, .json)")
    ] = None
    aws_price_list: Annotated[
        bool, typer.Option(help="ask AWS for prices: on-demand from its price list, spot from its price history")
    ] = False
    aws_endpoint: Annotated[str, typer.Option(help="address instead of AWS's, for tests")] = ""

    def settings(self) -> AwsSettings:
        """Return the settings of the cloud. Raises `ValueError`."""
        groups = tuple(part.strip() for part in self.aws_groups.split(",") if part.strip())
        tags = read_tags(self.aws_tags)
        if not groups and not tags:
            raise ValueError("--cloud aws needs --aws-groups or --aws-tags: the Auto Scaling groups to manage")
        return AwsSettings(
            self.aws_region, groups, tags, self.aws_endpoint, self.aws_prices, price_list=self.aws_price_list
        )


@dataclass(frozen=True)
class ClusterApiOptions:
    """The cloud `clusterapi`: MachineDeployments and MachinePools."""

    capi_namespace: Annotated[str, typer.Option(help="namespace of the Machines; empty = all")] = ""
    capi_cluster: Annotated[str, typer.Option(help="name of their Cluster; empty = any")] = ""
    capi_kubeconfig: Annotated[
        Path | None, typer.Option(help="kubeconfig of the management cluster; none = the cluster itself")
    ] = None
    capi_version: Annotated[str, typer.Option(help="version of the API group cluster.x-k8s.io")] = "v1beta1"

    def check(self) -> None:
        """Raise `ValueError` for a name that Kubernetes would refuse."""
        for flag, value in (("--capi-namespace", self.capi_namespace), ("--capi-version", self.capi_version)):
            if value and not is_label(value):
                raise ValueError(f"{flag} {value!r}: a name has {RULE}")


class Cloud(NamedTuple):
    """A cloud. `module` : has the function `wire` (see `trimtab.actuator.cloud.table`). `options` : the classes of the
    options that it reads; others must keep their defaults. `extras` : extras that must be installed. `name` : the value
    of `--cloud`.
    """

    name: str
    module: str
    options: tuple[type, ...]
    extras: tuple[str, ...] = ("kubernetes",)

    def load(self) -> Entry:
        """Return its function `wire`. Raises `MissingExtraError`."""
        for extra in self.extras:
            require_extra(extra, f"--cloud {self.name}")
        return cast(Entry, import_module(self.module).wire)


CLOUDS: Final = (
    Cloud("memory", "trimtab.clients.simulation.cloud.entry", (SimulationOptions, MachineOptions), ()),
    Cloud("kwok", "trimtab.actuator.cloud.kwok.cloud", (KubeOptions, MachineOptions, KwokOptions)),
    Cloud("externalgrpc", "trimtab.actuator.cloud.externalgrpc.cloud", (KubeOptions, ExternalOptions)),
    Cloud("aws", "trimtab.actuator.cloud.aws.cloud", (KubeOptions, AwsOptions), ("kubernetes", "aws")),
    Cloud("clusterapi", "trimtab.actuator.cloud.clusterapi.cloud", (KubeOptions, ClusterApiOptions)),
)
NAMES: Final = ", ".join(cloud.name for cloud in CLOUDS)


def cloud_named(name: str) -> Cloud:
    """Return a cloud by its name. Raises `SettingError`."""
    for cloud in CLOUDS:
        if cloud.name == name:
            return cloud
    raise SettingError(f"--cloud {name} is unknown; this build has: {NAMES}")


def option_classes() -> Iterator[type]:
    """Yield the classes of the options of all clouds, each once, in the order of the table."""
    yield from dict.fromkeys(kind for cloud in CLOUDS for kind in cloud.options)
