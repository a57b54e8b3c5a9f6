"""The version of a cluster's Kubernetes where only its objects are known: that of its newest kubelet, as none is newer
than the API server.
"""

import re
from collections.abc import Iterable
from typing import Final

from trimtab.common.kubernetes.kinds.nodes import Node

_KUBELET: Final = re.compile(r"v1\.([0-9]{1,3})\.[0-9]")
"""As in "v1.36.3-eks-1234"; simulated kubelets say "kwok-v0.7.0" or "fake"."""
_OLDEST: Final = 36
"""The oldest version whose allocator is known."""


def minor_of_kubelets(nodes: Iterable[Node]) -> int:
    """Return the minor version of the newest kubelet, 36 for 1.36, and at least that: API servers may be three versions
    newer than their kubelets, and those older than 1.36 keep no fields that they do not know. 0 if none tells one."""
    found = 0
    for node in nodes:
        info = node.status.node_info if node.status else None
        version = _KUBELET.match((info.kubelet_version if info else None) or "")
        found = max(found, int(version[1]) if version else 0)
    return max(found, _OLDEST) if found else 0
