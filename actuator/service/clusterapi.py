"""The cloud `clusterapi` in a live cluster, which another cluster may manage. Reads the groups and checks the
permissions in the management cluster before anything is done.
"""

from collections.abc import Callable
from contextlib import ExitStack

from trimtab.actuator.cloud.clusterapi.cloud import ClusterApiCloud
from trimtab.actuator.kube.api import Api, connect
from trimtab.actuator.kube.permissions import clusterapi_rules
from trimtab.actuator.service.environment import Environment, EnvironmentOptions
from trimtab.actuator.service.live_environment import CloudWiring, LiveCloud, open_live
from trimtab.actuator.store.records import Store
from trimtab.clients.kubernetes.permissions import require


def open_clusterapi(
    stack: ExitStack, options: EnvironmentOptions, store: Store, end_process: Callable[[], None]
) -> Environment:
    """Connect to both clusters. Raises `ClusterError`, `CloudError`, `ValueError`."""
    settings = options.clusterapi.settings()
    rules = clusterapi_rules(settings.namespace)
    management: Api | None = None
    if settings.kubeconfig is not None:
        management = connect(settings.kubeconfig, "", options.kube.call_timeout())
        stack.callback(management.close)
        require(management.http, rules)

    def build(api: Api, may_act: Callable[[], bool]) -> LiveCloud:
        del may_act
        if management is not None:
            management.http.guard = api.http.guard
        cloud = ClusterApiCloud(management or api, settings)

        def prepare() -> None:
            cloud.node_groups()

        return LiveCloud(cloud, prepare)

    return open_live(stack, options.kube, CloudWiring(rules if management is None else (), build), store, end_process)
