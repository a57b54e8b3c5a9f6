"""The cloud `kwok` in a live cluster. Reads the file of node groups before it contacts the cluster."""

from collections.abc import Callable

from trimtab.actuator.cloud.kwok.cloud import KwokCloud, ResyncLoop
from trimtab.actuator.cloud.kwok.groups import load_groups
from trimtab.actuator.cloud.kwok.ledger import NAME
from trimtab.actuator.cloud.kwok.settings import KwokOptions
from trimtab.actuator.cloud.simulated_machines import MachineOptions
from trimtab.actuator.cloud.wiring import LiveCloud, LiveWiring, Opening
from trimtab.actuator.kube.api import Api
from trimtab.actuator.kube.settings import KubeOptions
from trimtab.actuator.settings import SettingError
from trimtab.clients.kubernetes.permissions import own_object
from trimtab.clients.kubernetes.rules import Rule


def wire(opening: Opening) -> LiveWiring:
    """Read the groups. Raises `SettingError`, `ObjectError`."""
    options, namespace = opening.options.of(KwokOptions), opening.options.of(KubeOptions).namespace
    if options.cloud_config is None:
        raise SettingError("--cloud kwok needs --cloud-config, a file of NodeGroup objects")
    groups = load_groups(options.cloud_config)
    settings = options.settings(namespace, opening.options.of(MachineOptions))

    def build(api: Api, may_act: Callable[[], bool]) -> LiveCloud:
        cloud = KwokCloud(api, groups, settings)
        resync_loop = ResyncLoop(cloud, settings.poll_s, may_act)
        opening.stack.callback(resync_loop.stop)

        def prepare() -> None:
            cloud.open()
            resync_loop.start()

        return LiveCloud(cloud, prepare)

    return LiveWiring(kwok_rules(namespace), build)


def kwok_rules(namespace: str) -> tuple[Rule, ...]:
    """Return the permissions that the cloud needs: it creates nodes, and keeps its ledger in a ConfigMap."""
    return (Rule("", "nodes", ("create",)), *own_object("", "configmaps", ("get", "update"), namespace, NAME))
