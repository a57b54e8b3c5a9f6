"""What this user must be allowed to do, asked before anything else, so that all that lacks is said at once."""

from collections.abc import Iterable

import structlog

from clients.live_cluster.api import Api
from clients.live_cluster.errors import ApiError, MissingPermissionError
from clients.live_cluster.resources import Resource, rules_yaml

log = structlog.get_logger("live_cluster")

WATCHING = ("list", "watch")


def require(api: Api, wanted: Iterable[tuple[Resource, tuple[str, ...]]]) -> None:
    """Ask whether all verbs are allowed in all namespaces.

    Errors: MissingPermissionError with the RBAC rules that lack; UnreachableError. A cluster that does not say (the
    review itself is forbidden) is taken to allow: the calls themselves will tell.
    """
    missing: list[tuple[Resource, list[str]]] = []
    try:
        for resource, verbs in wanted:
            refused = [verb for verb in verbs if not api.may(resource, verb)]
            if refused:
                missing.append((resource, refused))
    except ApiError as error:
        log.warning("permissions_unknown", error=str(error))
    if missing:
        raise MissingPermissionError(rules_yaml(missing))
