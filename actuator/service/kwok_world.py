"""A real cluster with the cloud `kwok`, opened.

Decides what is checked first: the file of node groups, and every permission that will be needed.
"""

import os
import socket
from collections.abc import Callable
from contextlib import ExitStack

from actuator.cloud.kwok.cloud import Caretaker, KwokCloud
from actuator.cloud.kwok.groups import load_groups
from actuator.kube.api import connect
from actuator.kube.live import KubeCluster
from actuator.kube.permissions import ACTUATOR, kwok_rules
from actuator.service.leading import Leadership
from actuator.service.world import SettingError, World, WorldOptions
from actuator.store.records import Store
from clients.kubernetes_api.lease import Lease
from clients.kubernetes_api.permissions import lease_rule, require

# Asking lists all nodes, a tenth of a second for some thousands of them.
GROUPS_MAX_AGE_S = 5.0


def open_kwok(stack: ExitStack, options: WorldOptions, store: Store, end_process: Callable[[], None]) -> World:
    """Open it. Raises `SettingError`, `ClusterError`, `ValueError`."""
    kube = options.kube
    if kube.cloud_config is None:
        raise SettingError("--cloud kwok needs --cloud-config, a file of NodeGroup objects")
    groups = load_groups(kube.cloud_config)
    api = connect(kube.kubeconfig, kube.context, kube.call_timeout())
    stack.callback(api.close)
    rules = [*ACTUATOR, *kwok_rules(kube.namespace)]
    require(api.http, [*rules, lease_rule(kube.namespace)] if kube.leader_elect else rules)
    settings = options.kwok.settings(kube.namespace, options.memory)
    cloud = KwokCloud(api, groups, settings)
    leadership = None
    if kube.leader_elect:
        # Its own connection: what keeps us from acting must not keep us from renewing.
        lease_api = connect(kube.kubeconfig, kube.context, kube.call_timeout())
        stack.callback(lease_api.close)
        leadership = Leadership(Lease(lease_api.http, _identity(), kube.lease()), store, end_process)
        api.http.guard = leadership.guard
    caretaker = Caretaker(cloud, settings.poll_s, leadership.may_act if leadership else lambda: True)

    def prepare() -> None:
        cloud.open()
        caretaker.start()

    stack.callback(caretaker.stop)
    cluster = KubeCluster(api, kube.settings())
    return World(cluster, cloud, (), leadership, GROUPS_MAX_AGE_S, prepare)


def _identity() -> str:
    """A name that no other process has."""
    return f"{socket.gethostname()}_{os.getpid()}_{os.urandom(4).hex()}"
