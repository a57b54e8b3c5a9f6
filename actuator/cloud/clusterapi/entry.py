"""The cloud `clusterapi` in a live cluster, which another cluster may manage. Reads the groups and checks the
permissions in the management cluster before anything is done.
"""

from collections.abc import Callable

from trimtab.actuator.cloud.clusterapi.cloud import ClusterApiCloud
from trimtab.actuator.cloud.clusterapi.settings import ClusterApiOptions
from trimtab.actuator.cloud.wiring import LiveCloud, LiveWiring, Opening
from trimtab.actuator.kube.api import Api, connect
from trimtab.actuator.kube.settings import KubeOptions
from trimtab.clients.kubernetes.permissions import require
from trimtab.clients.kubernetes.rules import Rule


def wire(opening: Opening) -> LiveWiring:
    """Connect to the management cluster, if it is another one. Raises `ClusterError`, `ValueError`."""
    settings = opening.options.of(ClusterApiOptions).settings()
    rules = clusterapi_rules(settings.namespace)
    management: Api | None = None
    if settings.kubeconfig is not None:
        management = connect(settings.kubeconfig, "", opening.options.of(KubeOptions).call_timeout())
        opening.stack.callback(management.close)
        require(management.http, rules)

    def build(api: Api, may_act: Callable[[], bool]) -> LiveCloud:
        del may_act
        if management is not None:
            management.http.guard = api.http.guard
        cloud = ClusterApiCloud(management or api, settings)

        def prepare() -> None:
            cloud.node_groups()

        return LiveCloud(cloud, prepare)

    return LiveWiring(rules if management is None else (), build)


def clusterapi_rules(namespace: str) -> tuple[Rule, ...]:
    """Return the permissions that the cloud needs in the management cluster; `namespace` "" = all."""
    kinds = ("machinedeployments", "machinepools", "machines")
    return tuple(Rule("cluster.x-k8s.io", kind, ("list", "patch"), namespace) for kind in kinds)
