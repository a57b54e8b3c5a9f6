"""How a cloud is opened: what its entry receives from the command line, and what it returns.

Each cloud has an entry, a module with the function `wire`, that `trimtab.actuator.cloud.table` names. It reads its
options and files before anything is contacted.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from trimtab.actuator.cloud.provider import CloudProvider
from trimtab.actuator.kube.cluster import ClusterApi
from trimtab.clients.kubernetes.rules import Rule
from trimtab.clients.rpc.server import Registration

if TYPE_CHECKING:
    # It needs the extra `kubernetes`, which not every cloud does.
    from trimtab.actuator.kube.api import Api

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
    """What the entry of a cloud receives. `state_dir` exists; `stack` ends what the cloud begins."""

    options: OptionSections
    state_dir: Path
    stack: ExitStack


class LiveCloud(NamedTuple):
    """A cloud over a connection. `prepare` runs before the first action of this process."""

    provider: CloudProvider
    prepare: Callable[[], None] = lambda: None


class LiveWiring(NamedTuple):
    """A cloud for a live cluster: the permissions that it needs in the cluster, and its construction. `build` gets the
    connection and a function that returns whether this process may act; it makes no call.
    """

    rules: Sequence[Rule]
    build: "Callable[[Api, Callable[[], bool]], LiveCloud]"


class OwnCluster(NamedTuple):
    """A cloud that has its cluster in this process, and serves it by additional services."""

    cluster: ClusterApi
    provider: CloudProvider
    registrations: tuple[Registration, ...] = ()


Wiring = LiveWiring | OwnCluster
Entry = Callable[[Opening], Wiring]
