"""Which MachineDeployments and MachinePools the cloud `clusterapi` acts on."""

from dataclasses import dataclass
from pathlib import Path


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
