"""Which MachineDeployments and MachinePools the cloud `clusterapi` acts on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from trimtab.common.kubernetes.names import RULE, is_label


@dataclass(frozen=True)
class ClusterApiSettings:
    """Settings of the cloud."""

    # Namespace of the objects; "" = all.
    namespace: str = ""
    # Name of the Cluster that they belong to; "" = any.
    cluster: str = ""
    # Kubeconfig of the management cluster; None = the cluster itself.
    kubeconfig: Path | None = None
    # Version of the API group `cluster.x-k8s.io`.
    version: str = "v1beta1"


@dataclass(frozen=True)
class ClusterApiOptions:
    """The cloud `clusterapi`: MachineDeployments and MachinePools."""

    capi_namespace: Annotated[str, typer.Option(help="namespace of the Machines; empty = all")] = ""
    capi_cluster: Annotated[str, typer.Option(help="name of their Cluster; empty = any")] = ""
    capi_kubeconfig: Annotated[
        Path | None, typer.Option(help="kubeconfig of the management cluster; none = the cluster itself")
    ] = None
    capi_version: Annotated[str, typer.Option(help="version of the API group cluster.x-k8s.io")] = "v1beta1"

    def settings(self) -> ClusterApiSettings:
        """Return the settings of the cloud. Raises `ValueError`."""
        for flag, value in (("--capi-namespace", self.capi_namespace), ("--capi-version", self.capi_version)):
            if value and not is_label(value):
                raise ValueError(f"{flag} {value!r}: a name has {RULE}")
        return ClusterApiSettings(self.capi_namespace, self.capi_cluster, self.capi_kubeconfig, self.capi_version)
