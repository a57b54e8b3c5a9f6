"""The version of a cluster's Kubernetes, of its API server: every user may read it by Kubernetes' default roles."""

import re
from typing import Final

from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.errors import KubernetesError

_MINOR: Final = re.compile(r"[0-9]{1,3}")
"""Providers add signs, as in "33+"."""


def server_minor(api: Api) -> int:
    """Return the minor version of a server, 36 for 1.36; 0 if the server does not tell."""
    try:
        answer = api.json("GET", "/version")
    except KubernetesError:
        return 0
    found = _MINOR.match(str(answer.get("minor", "")))
    return int(found[0]) if found and answer.get("major") == "1" else 0
