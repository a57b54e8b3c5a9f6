"""What pods take in another place: the pods that their controllers make there have the requests of their templates.

A pod that was resized in place may request less than its template. In plans it takes the larger of both wherever it
goes, and only what it requests on the node where it runs. Pods whose requests a VerticalPodAutoscaler sets are left
out: it sets those of their successors, too. Pure. O(P) vectorised, then O(distinct pairs of controller and spec).
"""

from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.simulation.inputs import Inputs
from trimtab.planner.simulation.yielding import running
from trimtab.planner.snapshot.caches import SnapshotKey
from trimtab.planner.snapshot.columns import FLAG_DAEMON, FLAG_MIRROR, Snapshot

_STAYS: Final = FLAG_DAEMON | FLAG_MIRROR


class TemplateRequests(NamedTuple):
    """What the templates of controllers request. by_owner : by row, () = unknown; digest : of all, "" = of none. The
    numbers of replicas, which change often, have no part in it."""

    by_owner: tuple[tuple[tuple[str, int], ...], ...] = ()
    digest: str = ""


NO_TEMPLATES: Final = TemplateRequests()


class TemplateRequestsKey(SnapshotKey[TemplateRequests]):
    """What the templates of controllers request."""


def template_requests(snapshot: Snapshot) -> TemplateRequests:
    """Return what the templates of all controllers request. O(owners)."""
    found = tuple(owner.pod_requests for owner in snapshot.owners)
    if not any(found):
        return NO_TEMPLATES
    return TemplateRequests(found, blake2b(repr(found).encode(), digest_size=16).hexdigest())


def with_successors(given: Inputs, snapshot: Snapshot, templates: TemplateRequests) -> Inputs:
    """Return the inputs with the pods' requests elsewhere, and the difference added to what their nodes offer."""
    if not templates.digest:
        return given
    has_template = np.array([bool(one) for one in templates.by_owner], np.bool_)
    pods = snapshot.pods
    rows = np.flatnonzero(running(snapshot) & (pods.owner >= 0) & ((pods.flags & _STAYS) == 0))
    rows = rows[has_template[pods.owner[rows]]]
    pairs, of_pair = np.unique(np.stack([pods.owner[rows], pods.spec[rows]]), axis=1, return_inverse=True)
    specs, spec, allocatable = list(given.pods.specs), given.pods.spec.copy(), given.nodes.allocatable.copy()
    column = {name: at for at, name in enumerate(given.resources)}
    for number, (owner, at) in enumerate(pairs.T.tolist()):
        own, template = dict(specs[at].requests), dict(templates.by_owner[owner])
        more = {name: amount - own.get(name, 0) for name, amount in template.items() if amount > own.get(name, 0)}
        if not more or specs[at].requests_by_vpa:
            continue
        alike = rows[of_pair.reshape(-1) == number]
        spec[alike] = len(specs)
        specs.append(specs[at]._replace(requests=tuple(sorted((own | {k: template[k] for k in more}).items()))))
        for name, amount in more.items():
            if name in column:
                np.add.at(allocatable[:, column[name]], pods.node[alike], amount)
    return given._replace(
        pods=given.pods._replace(specs=tuple(specs), spec=spec), nodes=given.nodes._replace(allocatable=allocatable)
    )
