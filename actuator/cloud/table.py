"""All clouds of this build, in the order in which they are shown. The one place that lists them: the command line, its
checks, and the tests of chart, documents and extras follow it. A new cloud is a folder and a line.

The module of a cloud is loaded only when the cloud is chosen, so that no other one needs its packages. `memory` is for
trials: its code lies beside the simulator, which nothing here imports, so the table has its path as text. Its options
are declared here all the same (`SimulationOptions`), as the command line and its checks show the options of all clouds.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Final, NamedTuple, cast

from trimtab.actuator.cloud.aws.settings import AwsOptions
from trimtab.actuator.cloud.clusterapi.settings import ClusterApiOptions
from trimtab.actuator.cloud.externalgrpc.settings import ExternalOptions
from trimtab.actuator.cloud.kwok.settings import KwokOptions
from trimtab.actuator.cloud.wiring import Entry, MachineOptions, SimulationOptions
from trimtab.actuator.kube.settings import KubeOptions
from trimtab.actuator.settings import SettingError
from trimtab.common.rpc.extras import require_extra


class Cloud(NamedTuple):
    """A cloud. `module` : has the function `wire` (see `trimtab.actuator.cloud.wiring`). `options` : the classes of the
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
