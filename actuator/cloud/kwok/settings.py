"""How the cloud `kwok` behaves. Durations in seconds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from trimtab.actuator.cloud.wiring import MachineOptions


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

    def settings(self, namespace: str, machines: MachineOptions) -> KwokSettings:
        """Return the settings of the cloud."""
        return KwokSettings(
            node_start_s=machines.node_start,
            instance_delete_s=machines.instance_delete,
            call_failure_rate=self.call_failure_rate,
            start_failure_rate=self.start_failure_rate,
            seed=self.seed,
            namespace=namespace,
        )
