"""What this user must be allowed to do, asked before anything else, so that all that lacks is said at once."""

from collections.abc import Iterable
from typing import NamedTuple

import structlog

from clients.live_cluster.api import Api
from clients.live_cluster.errors import ApiError, MissingPermissionError
from clients.live_cluster.resources import Resource, rules_yaml

log = structlog.get_logger("live_cluster")

WATCHING = ("list", "watch")


class Need(NamedTuple):
    """Verbs on a resource, in one namespace, or in all for ""."""

    resource: Resource
    verbs: tuple[str, ...] = WATCHING
    namespace: str = ""


def require(api: Api, needs: Iterable[Need]) -> None:
    """Ask whether all that is needed is allowed.

    Errors: MissingPermissionError with the RBAC rules that lack; UnreachableError. A cluster that does not say (the
    review itself is forbidden) is taken to allow: the calls themselves will tell.
    """
    missing: list[tuple[Resource, list[str]]] = []
    try:
        for need in needs:
            refused = [verb for verb in need.verbs if not api.may(need.resource, verb, need.namespace)]
            if refused:
                missing.append((need.resource, refused))
    except ApiError as error:
        log.warning("permissions_unknown", error=str(error))
    if missing:
        raise MissingPermissionError(rules_yaml(missing))
