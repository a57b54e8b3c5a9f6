"""Options of clouds without real machines: `memory`, whose cluster is simulated, and `kwok`. Durations in seconds."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer


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
