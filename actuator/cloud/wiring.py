"""How a cloud is opened: what its function `wire` receives from the command line, and what it returns.

`trimtab.actuator.cloud.table` names the module of each cloud that has `wire`. It reads its options and files before
anything is contacted. The options of machines that are only pretended are here too: two clouds have them.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer

from trimtab.actuator.cloud.provider import CloudProvider
from trimtab.actuator.kube.cluster import ClusterApi
from trimtab.common.kubernetes.registry import PermissionRule
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
