"""A permission in Kubernetes as a value. Decides nothing, and needs no connection."""

from typing import NamedTuple


class Rule(NamedTuple):
    """Verbs on a resource ("pods" or "pods/eviction"). `namespace` "" = in all, or a resource that has none.

    `name` "" = every object; "create" cannot be limited to a name.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    namespace: str = ""
    name: str = ""
