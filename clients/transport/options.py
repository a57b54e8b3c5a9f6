"""Command-line options that every service has.

Each can also be set by environment: a typer app made with
`context_settings={"auto_envvar_prefix": "TRIMTAB_PLANNER"}` reads
`TRIMTAB_PLANNER_ADDRESS` for `--address`, and so on. Durations are in seconds.
"""

from pathlib import Path
from typing import Annotated

import typer

from clients.transport.server import ServerSettings

AddressOption = Annotated[str, typer.Option("--address", help="host:port to listen on; port 0 takes a free one")]
AddressFileOption = Annotated[
    Path | None, typer.Option("--address-file", help="file that receives the address once it is bound")
]
MetricsAddressOption = Annotated[
    str, typer.Option("--metrics-address", help="host:port of the Prometheus endpoint; empty for none")
]
GraceOption = Annotated[
    float, typer.Option("--grace", min=0, help="seconds that calls in flight have to finish when stopping")
]
MaxWorkersOption = Annotated[int, typer.Option("--max-workers", min=2, help="calls served at the same time")]
LogLevelOption = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error")]

DEFAULTS = ServerSettings()
