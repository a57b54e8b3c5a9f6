"""Settings of the client of a live cluster, and the options that they and the Lease's are read from. Durations in
seconds.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from trimtab.common.kubernetes.lease import LeaseSettings


@dataclass(frozen=True)
class KubeSettings:
    """Settings of the client of a live cluster."""

    # Also mark a node unschedulable while it carries the hard taint. Upstream: --cordon-node-before-terminating.
    cordon: bool = False
    # Longest silence of a list of many objects.
    list_timeout_s: float = 30.0


_L, _C = LeaseSettings(name="trimtab-actuator"), KubeSettings()


@dataclass(frozen=True)
class KubeOptions:
    """A real cluster, and who may act on it."""

    kubeconfig: Annotated[
        Path | None, typer.Option(help="kubeconfig; none = the service account, then the default locations")
    ] = None
    context: Annotated[str, typer.Option(help="context of the kubeconfig; empty = its current one")] = ""
    namespace: Annotated[str, typer.Option(help="namespace of the Lease and the ledger of kwok")] = _L.namespace
    cordon_node_before_terminating: Annotated[
        bool, typer.Option(help="also mark nodes unschedulable while they carry the hard taint")
    ] = _C.cordon
    kube_timeout: Annotated[float, typer.Option(min=0.1, help="longest wait for the API server")] = 10.0
    leader_elect: Annotated[
        bool, typer.Option(help="act only while holding a Lease; replicas share --store and serve reads")
    ] = False
    lease_name: Annotated[str, typer.Option(help="name of the Lease")] = _L.name
    lease_duration: Annotated[float, typer.Option(min=1, help="time without renewal after which others take over")] = (
        _L.duration_s
    )
    renew_deadline: Annotated[float, typer.Option(min=0.1, help="time without renewal after which a leader stops")] = (
        _L.renew_deadline_s
    )
    lease_retry: Annotated[float, typer.Option(min=0.05, help="pause between two attempts")] = _L.retry_period_s

    def settings(self) -> KubeSettings:
        """Return the settings of the cluster's client."""
        return KubeSettings(cordon=self.cordon_node_before_terminating)

    def lease(self) -> LeaseSettings:
        """Return the settings of the Lease. Raises `ValueError`."""
        if not self.lease_retry < self.renew_deadline < self.lease_duration:
            raise ValueError(
                f"--lease-retry {self.lease_retry:g} < --renew-deadline {self.renew_deadline:g} < --lease-duration"
                f" {self.lease_duration:g} does not hold"
            )
        return LeaseSettings(
            self.namespace, self.lease_name, self.lease_duration, self.renew_deadline, self.lease_retry
        )

    def call_timeout(self) -> float:
        """Return the timeout of a call: a leader's last call must be over before another process may lead."""
        if not self.leader_elect:
            return self.kube_timeout
        return min(self.kube_timeout, self.lease_duration - self.renew_deadline)
