"""Reading of a live cluster for one command, with a progress bar on a terminal, and its notes on stderr."""

from collections.abc import Iterable, Sequence

from rich.progress import BarColumn, MofNCompleteColumn

from trimtab.clients.cli.failures import FailedError, cluster_failures
from trimtab.clients.cli.live.sources import ClusterSource
from trimtab.clients.cli.output import note
from trimtab.clients.cli.sources import ClusterInput, note_some
from trimtab.clients.cli.terminal import progress
from trimtab.common.objects.build import BuiltSnapshot
from trimtab.common.objects.karpenter.offers import MachineOffer
from trimtab.common.watched.watched_objects import BUFFERS, DEVICES, GROUPS_OF_PODS, POOLS

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
