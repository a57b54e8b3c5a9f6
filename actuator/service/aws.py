"""The cloud `aws` in a live cluster. Reads the groups from AWS before anything is done."""

from collections.abc import Callable
from contextlib import ExitStack

from trimtab.actuator.cloud.aws.api import AwsApi
from trimtab.actuator.cloud.aws.cloud import AwsCloud
from trimtab.actuator.kube.api import Api
from trimtab.actuator.service.environment import Environment, EnvironmentOptions
from trimtab.actuator.service.live_environment import CloudWiring, LiveCloud, open_live
from trimtab.actuator.store.records import Store


def open_aws(
    stack: ExitStack, options: EnvironmentOptions, store: Store, end_process: Callable[[], None]
) -> Environment:
    """Connect to the cluster and to AWS. Raises `ClusterError`, `CloudError`, `OSError`, `ValueError`."""
    settings = options.aws.settings()
    aws = AwsApi(settings.region, settings.endpoint, has_prices=settings.price_list)

    def build(api: Api, may_act: Callable[[], bool]) -> LiveCloud:
        del may_act
        cloud = AwsCloud(aws, settings, guard=api.http.guard)

        def prepare() -> None:
            # Missing credentials and groups that do not exist are reported at the start.
            cloud.node_groups()

        return LiveCloud(cloud, prepare)

    return open_live(stack, options.kube, CloudWiring((), build), store, end_process)
