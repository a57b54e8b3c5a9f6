"""Input of the commands on live clusters: connection, node groups, settings."""

import os
from dataclasses import dataclass
from pathlib import Path

from trimtab.clients.cli.documents import read_settings
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.options import LiveSection
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import ConnectionSettings, connect_cluster
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.objects.files import read_objects
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
