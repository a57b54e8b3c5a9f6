"""Translates in-tree volumes to the volumes of the CSI drivers that replaced their plugins.

Decides which terms match a node with a bound in-tree volume: where the node's CSINode lists the plugin as migrated, the
driver's zone label; on all other nodes, the terms of the volume itself. Reads nothing else of a volume, and changes
none. Not modelled: the kind of an Azure disk, without which the scheduler refuses to translate it.

Source: kube-scheduler 1.34 volumebinding tryTranslatePVToCSI, isPluginMigratedToCSIOnNode; csi-translation-lib 0.34
translateTopologyFromInTreeToCSI, KubernetesVolumeIDToEBSVolumeID, gceGetRegionFromZones.
"""

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from trimtab.common.kubernetes.kinds.nodes import CSINode
from trimtab.common.kubernetes.kinds.storage import VolumeSpec
from trimtab.common.kubernetes.selectors import IN, NODE_NAME_FIELD, NOT_IN, Requirements, Terms
from trimtab.common.kubernetes.signals import clouds, well_known

ANNOTATION = well_known.MIGRATED_PLUGINS.key
ZONE, REGION = well_known.ZONE.key, well_known.REGION.key
OLD_ZONE, OLD_REGION = well_known.OLD_ZONE.key, well_known.OLD_REGION.key
SEVERAL = "__"
"""Separator of the zones in a label that names several."""

EBS, GCE_PD = "kubernetes.io/aws-ebs", "kubernetes.io/gce-pd"
AZURE_DISK, CINDER = "kubernetes.io/azure-disk", "kubernetes.io/cinder"
DRIVERS = {
    EBS: "ebs.csi.aws.com",
    GCE_PD: "pd.csi.storage.gke.io",
    AZURE_DISK: "disk.csi.azure.com",
    CINDER: "cinder.csi.openstack.org",
}
"""The driver of each plugin that the scheduler treats as migrated."""
PLUGINS = {driver: plugin for plugin, driver in DRIVERS.items()}
_ZONE_KEYS = {
    EBS: clouds.AWS_EBS_ZONE.key,
    GCE_PD: clouds.GKE_ZONE.key,
    CINDER: clouds.CINDER_ZONE.key,
}
"""The label by which a driver names zones; volumes of other drivers keep their terms."""
_EBS_ID = re.compile(r"aws://[^/]*/+vol-[^/]*/*\Z")
_ANYWHERE: Terms = (((), ()),)
_NOWHERE: Terms = ()


class Migration:
    """The plugins that each node has migrated to CSI drivers. Computed on demand, once: O(nodes) for each plugin.

    nodes : names of all nodes; csi_nodes : by name
    """

    def __init__(self, nodes: Collection[str], csi_nodes: Mapping[str, CSINode]) -> None:
        self._nodes, self._csi_nodes = nodes, csi_nodes
        self._split: dict[str, tuple[list[str], list[str]]] = {}

    def terms(self, plugin: str, own: Terms | None, translated: Terms | None) -> Terms | None:
        """Return terms equal to `translated` on nodes that have migrated the plugin, and to `own` on the others.

        Both hold no requirements on fields, and no empty term; None = anywhere. If nodes differ, the terms name those
        of the smaller part; a new node counts as one of the larger part.
        """
        if own == translated:
            return own
        handed_over, others = self._nodes_by(plugin)
        if not handed_over:
            return own
        if not others:
            return translated
        if len(others) <= len(handed_over):
            return _except_on(others, translated, own)
        return _except_on(handed_over, own, translated)

    def _nodes_by(self, plugin: str) -> tuple[list[str], list[str]]:
        """Return the names of the nodes that have migrated a plugin, and of the others; sorted."""
        split = self._split.get(plugin)
        if split is None:
            split = self._split[plugin] = ([], [])
            for name in sorted(self._nodes):
                split[0 if plugin in migrated_plugins(self._csi_nodes.get(name)) else 1].append(name)
        return split


NO_MIGRATION = Migration((), {})


def migrated_plugins(csi_node: CSINode | None) -> frozenset[str]:
    """Return the in-tree plugins that a node has migrated."""
    meta = csi_node.metadata if csi_node else None
    text = ((meta.annotations if meta else None) or {}).get(ANNOTATION)
    return frozenset(text.split(",")) if text else frozenset()


def plugin_of(spec: VolumeSpec) -> str:
    """Return the in-tree plugin of a volume, if it is one that nodes migrate; else ""."""
    sources = (
        (EBS, spec.aws_elastic_block_store),
        (GCE_PD, spec.gce_persistent_disk),
        (AZURE_DISK, spec.azure_disk),
        (CINDER, spec.cinder),
    )
    return next((plugin for plugin, source in sources if source is not None), "")


def translated_terms(plugin: str, terms: Terms | None, spec: VolumeSpec, labels: Mapping[str, str]) -> Terms | None:
    """Return the node affinity of an in-tree volume as its driver's; no node meets that of an untranslatable one.

    terms : its own; labels : of the volume, whose zones count where its terms name none
    """
    if not _is_translatable(plugin, spec, labels):
        return _NOWHERE
    key = _ZONE_KEYS.get(plugin)
    return terms if key is None else _in_drivers_topology(terms, labels, key)


class _Topology(NamedTuple):
    """Label keys of a volume's terms. zone, region : the key that they use."""

    zone: str
    region: str


def _in_drivers_topology(terms: Terms | None, labels: Mapping[str, str], key: str) -> Terms | None:
    topology = _topology(terms or (), labels)
    if _has_values(terms or (), topology.zone):
        terms = _renamed(terms, topology.zone, key)
    else:
        zones = {zone.strip() for zone in labels.get(topology.zone, "").split(SEVERAL)} - {""}
        if zones:
            added = ((key, IN, tuple(sorted(zones))),)
            terms = tuple((own + added, fields) for own, fields in terms or _ANYWHERE)
    if topology.region == OLD_REGION and _has_values(terms or (), OLD_REGION):
        terms = _renamed(terms, OLD_REGION, REGION)
    return terms


def _topology(terms: Terms, labels: Mapping[str, str]) -> _Topology:
    """Return the labels by which a volume names zone and region, stable or old: in its terms, or else its labels."""
    keys = {key for own, _ in terms for key, _, _ in own}
    is_old = OLD_ZONE in (keys if keys & {ZONE, OLD_ZONE} else labels)
    is_stable = ZONE in (keys if keys & {ZONE, OLD_ZONE} else labels)
    return _Topology(OLD_ZONE, OLD_REGION) if is_old and not is_stable else _Topology(ZONE, REGION)


def _has_values(terms: Terms, key: str) -> bool:
    return any(one == key and values for own, _ in terms for one, _, values in own)


def _renamed(terms: Terms | None, old: str, new: str) -> Terms:
    def rename(own: Requirements) -> Requirements:
        return tuple((new if key == old else key, operator, values) for key, operator, values in own)

    return tuple((rename(own), fields) for own, fields in terms or ())


def _is_translatable(plugin: str, spec: VolumeSpec, labels: Mapping[str, str]) -> bool:
    if plugin == EBS and spec.aws_elastic_block_store is not None:
        volume_id = spec.aws_elastic_block_store.volume_id or ""
        return not volume_id.startswith("aws://") or _EBS_ID.match(volume_id) is not None
    zones = (labels.get(OLD_ZONE) or labels.get(ZONE) or "").split(SEVERAL)
    if plugin == GCE_PD and len(zones) > 1:
        parts = [zone.split("-") for zone in zones]
        return all(len(part) == 3 for part in parts) and len({tuple(part[:2]) for part in parts}) == 1
    return True


def _except_on(names: list[str], usual: Terms | None, there: Terms | None) -> Terms:
    """Return terms equal to `there` on the named nodes and to `usual` on all others; a field takes one name."""
    elsewhere = tuple((NODE_NAME_FIELD, NOT_IN, (name,)) for name in names)
    terms = [(own, elsewhere) for own, _ in (_ANYWHERE if usual is None else usual)]
    for name in names:
        here = ((NODE_NAME_FIELD, IN, (name,)),)
        terms.extend((own, here) for own, _ in (_ANYWHERE if there is None else there))
    return tuple(terms)
