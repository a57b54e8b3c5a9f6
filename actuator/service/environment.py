"""The environment of an actuator: a cluster with its cloud. Decides from the options which one is opened, and what is
checked first: options that have no effect, and in a live cluster every permission that will be needed. Opening changes
nothing outside the process; while another process leads, changes are prevented. `trimtab.actuator.cloud.table` has the
clouds.
"""

import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import fields
from typing import Any, NamedTuple

from trimtab.actuator.cloud.provider import CloudProvider
from trimtab.actuator.cloud.table import Cloud, cloud_named, option_classes
from trimtab.actuator.cloud.wiring import LiveWiring, Opening, OptionSections, OwnCluster
from trimtab.actuator.kube.cluster import ClusterApi
from trimtab.actuator.kube.settings import KubeOptions
from trimtab.actuator.service.leading import Leadership
from trimtab.actuator.service.options import StateOptions
from trimtab.actuator.settings import SettingError
from trimtab.actuator.store.records import Store
from trimtab.common.kubernetes.lease import Lease
from trimtab.common.kubernetes.registry import User, rules_of
from trimtab.common.rpc.server import Registration

# A request for the cloud's node groups may list all nodes: a tenth of a second for several thousand.
GROUPS_MAX_AGE_S = 5.0


class Environment(NamedTuple):
    """A cluster and its cloud. `leadership` None = this process is the only one. `registrations` : gRPC services of the
    cluster or cloud, served on the actuator's port.
    """

    cluster: ClusterApi
    cloud: CloudProvider
    registrations: tuple[Registration, ...] = ()
    leadership: Leadership | None = None
    # Greatest age of the cloud's node groups in a status, seconds; 0 = a read costs nothing.
    groups_max_age_s: float = 0.0
    # Runs before the first action of this process.
    prepare: Callable[[], None] = lambda: None


def open_environment(
    stack: ExitStack, state: StateOptions, options: OptionSections, store: Store, end_process: Callable[[], None]
) -> Environment:
    """Open it as the options say. Raises `SettingError`, `ClusterError`, `CloudError`, `MissingExtraError`,
    `ValueError`, `OSError`.
    """
    cloud = cloud_named(state.cloud)
    _refuse_ignored(cloud, options)
    wiring = cloud.load()(Opening(options, state.state_dir, stack))
    if isinstance(wiring, OwnCluster):
        return Environment(wiring.cluster, wiring.provider, wiring.registrations)
    return _open_live(stack, options.of(KubeOptions), wiring, store, end_process)


def _refuse_ignored(cloud: Cloud, options: OptionSections) -> None:
    """Refuse options that differ from their defaults although the cloud does not read them. Raises `SettingError`."""
    unread = [kind for kind in option_classes() if kind not in cloud.options]
    changed = [name for kind in unread for name in _changed(options.of(kind), kind())]
    if changed:
        flags = ", ".join("--" + name.replace("_", "-") for name in changed)
        raise SettingError(f"--cloud {cloud.name} does not use {flags}; omit it, or choose another cloud")


def _changed(section: Any, default: Any) -> list[str]:
    """Return names of the options that differ from their defaults."""
    return [field.name for field in fields(section) if getattr(section, field.name) != getattr(default, field.name)]


def _open_live(
    stack: ExitStack, kube: KubeOptions, wiring: LiveWiring, store: Store, end_process: Callable[[], None]
) -> Environment:
    """Connect to the cluster and build its cloud. Raises `ClusterError`, `ValueError`."""
    # They need the extra `kubernetes`, which the cloud has asked for.
    from trimtab.actuator.kube.api import connect
    from trimtab.actuator.kube.live import KubeCluster
    from trimtab.common.kubernetes.permissions import require

    api = connect(kube.kubeconfig, kube.context, kube.call_timeout())
    stack.callback(api.close)
    rules = [*rules_of(User.ACTUATOR), *wiring.rules]
    require(api.http, [*rules, *rules_of(User.LEADER, kube.namespace, kube.lease_name)] if kube.leader_elect else rules)
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
