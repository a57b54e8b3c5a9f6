"""Input of the commands on live clusters: connection, node groups, settings; and one reading of a cluster, with a
progress bar on a terminal, and its notes on stderr.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn

from trimtab.clients.cli.documents import read_settings
from trimtab.clients.cli.failures import FailedError, UsageError, cluster_failures
from trimtab.clients.cli.options import LiveSection
from trimtab.clients.cli.output import note
from trimtab.clients.cli.sources import ClusterInput, note_some
from trimtab.clients.cli.terminal import progress
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import ConnectionSettings, connect_cluster
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.objects.build import BuiltSnapshot
from trimtab.common.objects.files import read_objects
from trimtab.common.objects.karpenter.offers import MachineOffer
from trimtab.common.watched.watched_objects import BUFFERS, DEVICES, GROUPS_OF_PODS, POOLS
from trimtab.v1 import plan_pb2


@dataclass(frozen=True)
class ClusterSource:
    """Which cluster, and its declarations. Nothing is read yet. `kubeconfig` None, `context` "" : the usual ones;
    `node_groups` : files with NodeGroup objects; `settings` : file of plan settings, None = defaults; `name` : of the
    cluster in requests.
    """

    kubeconfig: Path | None = None
    context: str = ""
    node_groups: tuple[Path, ...] = ()
    settings: Path | None = None
    name: str = ""
    changes: tuple[str, ...] = ()
    """Of `--set`."""

    @classmethod
    def of(cls, options: LiveSection) -> "ClusterSource":
        """Return what the options of a command name."""
        groups, changes = tuple(options.node_groups or ()), tuple(options.set_values or ())
        return cls(options.kubeconfig, options.context, groups, options.settings, options.cluster_name, changes)

    def api(self) -> Api:
        """Connect as configured."""
        return Api(connect_cluster(ConnectionSettings(self.kubeconfig, self.context)))

    def groups(self) -> tuple[NodeGroup, ...]:
        """Read the node groups; any other object in the files is an error, since it would have no effect."""
        if not self.node_groups:
            return ()
        objects = read_objects(self.node_groups)
        others = sorted(objects.given - {"NodeGroup"}) + sorted(objects.skipped)
        if others:
            raise UsageError(f"--node-groups: {', '.join(others)} is not a NodeGroup of trimtab.dev/v1; leave it out")
        groups: list[NodeGroup] = objects.of("NodeGroup")
        for group in groups:
            if not (group.metadata and group.metadata.name):
                raise UsageError("--node-groups: a NodeGroup has no metadata.name")
        return tuple(groups)

    def plan_settings(self) -> plan_pb2.PlanSettings:
        """Read the settings."""
        return read_settings(self.settings, self.changes)


def check_writable(option: str, path: Path | None) -> None:
    """Refuse a path to which no file can be written, before anything else is done. Errors: UsageError."""
    if path is None:
        return
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"{option} {path}: the directory of this file does not exist")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise UsageError(f"{option} {path}: no permission to write this file")


_PURPOSES = {
    **dict.fromkeys(BUFFERS, "they only ask for slack or capacity"),
    **dict.fromkeys(POOLS, "without both, the nodes of Karpenter are in no node group"),
    **dict.fromkeys(DEVICES, "pods with claims of devices are neither placed nor moved without them"),
    **dict.fromkeys(GROUPS_OF_PODS, "pods that name a group wait for it"),
}


def read_live(
    cluster: ClusterInput,
    numbers: Iterable[str] = (),
    *,
    with_notes: bool = True,
    offers: Sequence[MachineOffer] | None = None,
) -> BuiltSnapshot:
    """Read a cluster once; permissions to list its objects suffice. offers : as of `read_snapshot`.

    Errors: UsageError, FailedError.
    """
    from trimtab.clients.live.single_read import read_once

    source = ClusterSource(cluster.kubeconfig, cluster.context, cluster.files)
    groups = source.groups()
    with cluster_failures(), progress(f"reading {cluster.name}", BarColumn(), MofNCompleteColumn()) as show:
        api = source.api()
        try:
            found = read_once(api, groups, numbers, lambda done, whole: show(completed=done, total=whole), offers)
        finally:
            api.close()
    if not found.snapshot.nodes and not found.snapshot.node_groups:
        raise FailedError(f"{cluster.name}: the cluster has no nodes")
    if with_notes:
        note_some(found.notes)
        for kind in found.not_permitted:
            note(f"{kind} objects are left out: this user may not list them; {_PURPOSES[kind]}")
    return BuiltSnapshot(found.snapshot, [], found.settings)
