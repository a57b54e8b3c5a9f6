"""Which CSI drivers a node must have for a pod's volumes.

A driver may ask that no pod with its volumes is scheduled on a node that lacks it. A volume of an in-tree plugin needs
the plugin's CSI driver on every node with a CSINode, whichever plugins it has migrated. Inline CSI volumes need none.
Source: kube-scheduler 1.37 nodevolumelimits (checkCSIDriverOnNode, getCSIDriverInfo, checkAttachableInlineVolume).
"""

from collections.abc import Iterable

from trimtab.common.kubernetes.kinds.nodes import CSINode
from trimtab.common.kubernetes.kinds.storage import CSIDriver
from trimtab.common.objects.dictionary import Dictionary
from trimtab.common.objects.migration import DRIVERS
from trimtab.v1 import snapshot_pb2 as pb

NO_DRIVERS: frozenset[str] = frozenset()


def required_drivers(drivers: Iterable[CSIDriver]) -> frozenset[str]:
    """Return the names of the drivers that ask that no pod is scheduled without them."""
    return frozenset(
        driver.metadata.name
        for driver in drivers
        if driver.metadata and driver.metadata.name and driver.spec and driver.spec.prevent_pod_scheduling_if_missing
    )


def driver_requirement(driver: str, plugin: str, required: frozenset[str]) -> str:
    """Return what a node must list for a volume: the driver, or the in-tree plugin of the volume; "" for nothing.

    plugin : in-tree plugin that the driver replaces, "" for a volume of the driver itself
    """
    return (plugin or driver) if driver in required else ""


def volume_drivers(
    csi_node: CSINode | None, required: frozenset[str], dictionary: Dictionary
) -> pb.VolumeDrivers | None:
    """Return the required drivers and in-tree plugins by which a node mounts volumes; None if none is required."""
    if not required:
        return None
    listed = (csi_node.spec.drivers if csi_node and csi_node.spec else None) or ()
    present = {one.name for one in listed if one.name} & required
    plugins = {
        plugin for plugin, driver in DRIVERS.items() if driver in required and (driver in present or csi_node is None)
    }
    return pb.VolumeDrivers(names=[dictionary.string(name) for name in sorted(present | plugins)])
