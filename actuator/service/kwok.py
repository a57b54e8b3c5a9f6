"""The cloud `kwok` in a live cluster. Reads the file of node groups before it contacts the cluster."""

from collections.abc import Callable
from contextlib import ExitStack

from trimtab.actuator.cloud.kwok.cloud import KwokCloud, ResyncLoop
from trimtab.actuator.cloud.kwok.groups import load_groups
from trimtab.actuator.cloud.kwok.ledger import NAME
from trimtab.actuator.kube.api import Api
from trimtab.actuator.kube.permissions import kwok_rules
from trimtab.actuator.service.environment import Environment, EnvironmentOptions, SettingError
from trimtab.actuator.service.live_environment import CloudWiring, LiveCloud, open_live
from trimtab.actuator.store.records import Store


def open_kwok(
    stack: ExitStack, options: EnvironmentOptions, store: Store, end_process: Callable[[], None]
) -> Environment:
    """Connect to the cluster and build the cloud. Raises `SettingError`, `ClusterError`, `ValueError`."""
    kube = options.kube
    if kube.cloud_config is None:
        raise SettingError("--cloud kwok needs --cloud-config, a file of NodeGroup objects")
    groups = load_groups(kube.cloud_config)
    settings = options.kwok.settings(kube.namespace, options.simulation)

    def build(api: Api, may_act: Callable[[], bool]) -> LiveCloud:
        cloud = KwokCloud(api, groups, settings)
        resync_loop = ResyncLoop(cloud, settings.poll_s, may_act)
        stack.callback(resync_loop.stop)

        def prepare() -> None:
            cloud.open()
            resync_loop.start()

        return LiveCloud(cloud, prepare)

    return open_live(stack, kube, CloudWiring(kwok_rules(kube.namespace, NAME), build), store, end_process)
