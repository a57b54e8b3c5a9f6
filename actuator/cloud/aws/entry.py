"""The cloud `aws` in a live cluster. Reads the groups from AWS before anything is done."""

from collections.abc import Callable

from trimtab.actuator.cloud.aws.api import AwsApi
from trimtab.actuator.cloud.aws.cloud import AwsCloud
from trimtab.actuator.cloud.aws.settings import AwsOptions
from trimtab.actuator.cloud.wiring import LiveCloud, LiveWiring, Opening
from trimtab.actuator.kube.api import Api


def wire(opening: Opening) -> LiveWiring:
    """Open a session with AWS; no call is made. Raises `CloudError`, `OSError`, `ValueError`."""
    settings = opening.options.of(AwsOptions).settings()
    aws = AwsApi(settings.region, settings.endpoint, has_prices=settings.price_list)

    def build(api: Api, may_act: Callable[[], bool]) -> LiveCloud:
        del may_act
        cloud = AwsCloud(aws, settings, guard=api.http.guard)

        def prepare() -> None:
            # Missing credentials and groups that do not exist are reported at the start.
            cloud.node_groups()

        return LiveCloud(cloud, prepare)

    return LiveWiring((), build)
