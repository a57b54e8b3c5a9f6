"""How the provider behind the cloud `externalgrpc` is reached. Durations in seconds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import grpc
import typer

from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.client import connect


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
