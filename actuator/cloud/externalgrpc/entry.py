"""The cloud `externalgrpc` in a live cluster. Calls the provider once before anything is done."""

from collections.abc import Callable

from trimtab.actuator.cloud.externalgrpc.calls import Calls
from trimtab.actuator.cloud.externalgrpc.cloud import ExternalCloud
from trimtab.actuator.cloud.externalgrpc.settings import ExternalOptions
from trimtab.actuator.cloud.wiring import LiveCloud, LiveWiring, Opening
from trimtab.actuator.kube.api import Api


def wire(opening: Opening) -> LiveWiring:
    """Open the channel to the provider; no call is made. Raises `OSError`, `ValueError`."""
    options = opening.options.of(ExternalOptions)
    channel = options.open_channel()
    opening.stack.callback(channel.close)

    def build(api: Api, may_act: Callable[[], bool]) -> LiveCloud:
        del may_act
        cloud = ExternalCloud(Calls(channel, options.cloud_timeout), api.http.guard)
        # A wrong address is reported at the start.
        return LiveCloud(cloud, cloud.refresh)

    return LiveWiring((), build)
