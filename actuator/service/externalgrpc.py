"""The cloud `externalgrpc` in a live cluster. Calls the provider once before anything is done."""

from collections.abc import Callable
from contextlib import ExitStack

from trimtab.actuator.cloud.externalgrpc.calls import Calls
from trimtab.actuator.cloud.externalgrpc.cloud import ExternalCloud
from trimtab.actuator.kube.api import Api
from trimtab.actuator.service.environment import Environment, EnvironmentOptions
from trimtab.actuator.service.live_environment import CloudWiring, LiveCloud, open_live
from trimtab.actuator.store.records import Store


def open_externalgrpc(
    stack: ExitStack, options: EnvironmentOptions, store: Store, end_process: Callable[[], None]
) -> Environment:
    """Connect to the cluster and to the provider. Raises `SettingError`, `ClusterError`, `OSError`, `ValueError`."""
    channel = options.external.open_channel()
    stack.callback(channel.close)

    def build(api: Api, may_act: Callable[[], bool]) -> LiveCloud:
        del may_act
        cloud = ExternalCloud(Calls(channel, options.external.cloud_timeout), api.http.guard)
        # A wrong address is reported at the start.
        return LiveCloud(cloud, cloud.refresh)

    return open_live(stack, options.kube, CloudWiring((), build), store, end_process)
