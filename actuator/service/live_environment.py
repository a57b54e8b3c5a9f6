"""A live cluster with any cloud: the connection, the permissions, the Lease and the client of the cluster.

Checks every permission that will be needed before anything is done, and prevents changes while another process leads. A
module for each cloud, such as `trimtab.actuator.service.kwok`, adds the rest.
"""

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from trimtab.actuator.cloud.provider import CloudProvider
from trimtab.actuator.kube.api import Api, connect
from trimtab.actuator.kube.live import KubeCluster
from trimtab.actuator.kube.permissions import ACTUATOR
from trimtab.actuator.service.environment import Environment
from trimtab.actuator.service.leading import Leadership
from trimtab.actuator.service.options import KubeOptions
from trimtab.actuator.store.records import Store
from trimtab.clients.kubernetes.lease import Lease
from trimtab.clients.kubernetes.permissions import lease_rules, require
from trimtab.clients.kubernetes.rules import Rule

# A request for the cloud's node groups may list all nodes: a tenth of a second for several thousand.
GROUPS_MAX_AGE_S = 5.0


class LiveCloud(NamedTuple):
    """A cloud over a connection. `prepare` runs before the first action of this process."""

    provider: CloudProvider
    prepare: Callable[[], None] = lambda: None


class CloudWiring(NamedTuple):
    """The parts that a cloud adds: the permissions that it needs in the cluster, and its construction. `build` gets the
    connection and a function that returns whether this process may act; it makes no call.
    """

    rules: Sequence[Rule]
    build: Callable[[Api, Callable[[], bool]], LiveCloud]


def open_live(
    stack: ExitStack, kube: KubeOptions, wiring: CloudWiring, store: Store, end_process: Callable[[], None]
) -> Environment:
    """Connect to the cluster and build its cloud. Raises `ClusterError`, `ValueError`."""
    api = connect(kube.kubeconfig, kube.context, kube.call_timeout())
    stack.callback(api.close)
    rules = [*ACTUATOR, *wiring.rules]
    require(api.http, [*rules, *lease_rules(kube.namespace, kube.lease_name)] if kube.leader_elect else rules)
    leadership = None
    if kube.leader_elect:
        # A separate connection: blocked calls of the actuator must not block renewals of the Lease.
        lease_api = connect(kube.kubeconfig, kube.context, kube.call_timeout())
        stack.callback(lease_api.close)
        leadership = Leadership(Lease(lease_api.http, _identity(), kube.lease()), store, end_process)
        api.http.guard = leadership.guard
    cloud = wiring.build(api, leadership.may_act if leadership else lambda: True)
    cluster = KubeCluster(api, kube.settings())
    return Environment(cluster, cloud.provider, (), leadership, GROUPS_MAX_AGE_S, cloud.prepare)


def _identity() -> str:
    """Return a name that no other process has."""
    return f"{socket.gethostname()}_{os.getpid()}_{os.urandom(4).hex()}"
