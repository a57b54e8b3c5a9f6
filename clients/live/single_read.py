"""Read a live cluster once, without a watch: each kind is listed, and the objects become one snapshot.

Decides which kinds a snapshot may lack: kinds that only requests for slack use, those of Karpenter, those of devices
and groups of pods (pods that refer to them then wait, or stay where they are), and those that the server does not know.
The permission to list any other kind is required, because a plan without budgets or volumes would be wrong.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from trimtab.clients.live.lists import list_page
from trimtab.common.kubernetes.api import Api, pages, read_policy
from trimtab.common.kubernetes.envelope import ListPage
from trimtab.common.kubernetes.errors import ApiError, KubernetesError, MissingPermissionError
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.kubernetes.object_errors import InvalidInputError
from trimtab.common.kubernetes.permissions import require, rules_yaml
from trimtab.common.kubernetes.registry import WATCHED, PermissionRule, Resource
from trimtab.common.kubernetes.server_version import server_minor
from trimtab.common.objects.karpenter.offers import MachineOffer
from trimtab.common.rpc.collection import collection_paused
from trimtab.common.rpc.retries import with_retries
from trimtab.common.watched.pool_groups import store_pool_groups
from trimtab.common.watched.snapshot_maker import SnapshotMaker
from trimtab.common.watched.watched_objects import BUFFERS, DEVICES, GROUPS_OF_PODS, POOLS, WatchedObjects
from trimtab.v1 import plan_pb2, snapshot_pb2

PAGE_LIMIT: Final = 5000
PAGE_TIMEOUT_S: Final = 60.0
_OPTIONAL: Final = (*BUFFERS, *POOLS, *DEVICES, *GROUPS_OF_PODS)


class ClusterRead(NamedTuple):
    """A cluster as it was when it was read. not_permitted : kinds that were left out for lack of a permission;
    settings : what NodePools ask of plans.
    """

    snapshot: snapshot_pb2.ClusterSnapshot
    notes: tuple[str, ...]
    not_permitted: tuple[str, ...]
    settings: plan_pb2.PlanSettings


def read_once(
    api: Api,
    groups: Sequence[NodeGroup] = (),
    numbers: Iterable[str] = (),
    progress: Callable[[int, int], None] | None = None,
    offers: Sequence[MachineOffer] | None = None,
) -> ClusterRead:
    """Return a cluster's snapshot. numbers : keys of the pods' annotations that hold numbers; progress : called with
    kinds listed and all kinds; offers : machines that NodePools may have, None = those of the nodes.

    Errors: MissingPermissionError with all rules that are missing; UnreachableError; KubernetesError if an object
    cannot be used.
    """
    require(api, [_list_rule(one) for one in WATCHED.values() if one.kind not in _OPTIONAL])
    store, not_permitted = WatchedObjects(numbers), []
    with collection_paused():
        for number, resource in enumerate(WATCHED.values()):
            try:
                _list(api, resource, store)
            except ApiError as error:
                if not error.is_forbidden:
                    raise
                if resource.kind not in _OPTIONAL:
                    raise MissingPermissionError(rules_yaml([_list_rule(resource)])) from error
                not_permitted.append(resource.kind)
            if progress is not None:
                progress(number + 1, len(WATCHED))
        try:
            pools = store_pool_groups(store, groups, offers)
            update = SnapshotMaker(store, lambda: server_minor(api)).next_update([*groups, *pools.groups], None)
        except InvalidInputError as error:
            raise KubernetesError(f"no snapshot can be made: {error}") from error
    assert update.snapshot is not None, "the first snapshot is whole"
    return ClusterRead(update.snapshot, (*update.notes, *pools.notes), tuple(not_permitted), pools.settings)


def list_rules() -> list[PermissionRule]:
    """Return the permissions with which everything of a cluster can be read once."""
    return [_list_rule(resource) for resource in WATCHED.values()]


def _list_rule(resource: Resource) -> PermissionRule:
    return PermissionRule(resource.group, resource.plural, ("list",))


def _list(api: Api, resource: Resource, store: WatchedObjects) -> None:
    """Put all objects of a kind into the store; none if the server knows no version of the kind."""
    for version in resource.by_version:
        try:
            return _list_version(api, version, store)
        except ApiError as error:
            if error.status != 404:
                raise
    return None


def _list_version(api: Api, resource: Resource, store: WatchedObjects) -> None:
    """List page by page; if pages expire, all in one piece."""
    try:
        _list_pages(api, resource, store, PAGE_LIMIT)
    except ApiError as error:
        if not error.is_expired:
            raise
        _list_pages(api, resource, store, 0)


def _list_pages(api: Api, resource: Resource, store: WatchedObjects, limit: int) -> None:
    def read(token: str) -> ListPage:
        return with_retries(lambda: list_page(api, resource, limit, token, PAGE_TIMEOUT_S), read_policy)

    store.listing(resource.kind)
    for page in pages(read, resource.path):
        store.put(resource.kind, page.items)
    store.listed(resource.kind)
