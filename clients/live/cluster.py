"""A live cluster: list and watch all kinds in the background, return snapshots and deltas on request.

    with LiveCluster(Api(connect_cluster())) as cluster:
        cluster.wait_until_listed(timeout_s=60)
        update = cluster.next_update(groups, status)

Decides when the cluster is known well enough: every kind has been listed, none is stale, and no watch has failed
permanently.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

import structlog

from trimtab.clients.live.reflector import Reflector, ReflectorSettings
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.errors import ApiError, KubernetesError, MissingPermissionError
from trimtab.common.kubernetes.kinds.nodes import Node, NodeGroup
from trimtab.common.kubernetes.object_errors import InvalidInputError
from trimtab.common.kubernetes.permissions import require, rules_yaml
from trimtab.common.kubernetes.registry import WATCHED, PermissionRule, Resource, User
from trimtab.common.kubernetes.server_version import server_minor
from trimtab.common.objects.karpenter.offers import MachineOffer
from trimtab.common.objects.karpenter.pool_settings import has_pools, with_pool_settings
from trimtab.common.objects.karpenter.pools import PoolGroups
from trimtab.common.rpc.collection import collection_paused
from trimtab.common.watched.actuation import Read, read_status
from trimtab.common.watched.cloud_groups import cloud_groups, group_of_instance, undeclared_groups
from trimtab.common.watched.cluster_objects import few
from trimtab.common.watched.pool_groups import store_pool_groups
from trimtab.common.watched.snapshot_maker import SnapshotMaker
from trimtab.common.watched.snapshot_update import Observation
from trimtab.common.watched.watched_objects import WatchedObjects
from trimtab.v1 import actuator_pb2, plan_pb2

log = structlog.get_logger("live_cluster")

PAUSE_S = 60.0
"""Pause before checking again whether the server knows a kind: its CustomResourceDefinition may come later."""


class LiveCluster:
    """The cluster behind an `Api`. Use it as a context manager, or `start` and `stop` it. Thread-safe."""

    def __init__(
        self,
        api: Api,
        settings: ReflectorSettings | None = None,
        resources: Sequence[Resource] = tuple(WATCHED.values()),
        needs: Sequence[PermissionRule] = (),
        numbers: Iterable[str] = (),
    ) -> None:
        """`needs` : permissions that the caller needs, to be checked together with those of this class; `numbers` :
        keys of the pods' annotations that hold numbers.
        """
        self.store = WatchedObjects(numbers)
        self.api, self._needs = api, needs
        self._maker = SnapshotMaker(self.store, lambda: server_minor(api))
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._listed: set[str] = set()
        self._absent: set[str] = set()
        self._stopped = threading.Event()
        self._failure: KubernetesError | None = None
        # The last status, the store's revision at that time, and its content.
        self._last_read: tuple[int, actuator_pb2.ActuatorStatus, Read] | None = None
        self._reflectors = [Reflector(api, resource, self, settings) for resource in resources]
        self._threads = [
            threading.Thread(target=self._follow, args=(one,), name=f"watch {one.resource.plural}", daemon=True)
            for one in self._reflectors
        ]

    def start(self) -> None:
        """Check the permissions, then start to list and watch. Errors: MissingPermissionError, UnreachableError."""
        require(
            self.api,
            [*(rule for one in self._reflectors for rule in one.resource.rules(User.SNAPSHOTS)), *self._needs],
        )
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """End all watches and wait for their threads. A thread whose server is silent is left running."""
        self._stopped.set()
        for reflector in self._reflectors:
            reflector.stop()
        end_s = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, end_s - time.monotonic()))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait_until_listed(self, timeout_s: float) -> bool:
        """Wait until every kind is listed; return whether it is. Raises KubernetesError if a watch failed permanently.
        Python's garbage collector is paused meanwhile: hundreds of thousands of rows are created, none of them in a
        cycle.
        """
        with collection_paused(), self._changed:
            self._changed.wait_for(lambda: self._failure is not None or not self.missing, timeout_s)
            self._refuse_failure()
            return not self.missing

    @property
    def missing(self) -> list[str]:
        """The kinds that have not been listed yet."""
        return [one.resource.kind for one in self._reflectors if one.resource.kind not in self._listed]

    @property
    def troubles(self) -> dict[str, str]:
        """The failures that are still present, by kind."""
        return {reflector.resource.kind: reflector.trouble for reflector in self._reflectors if reflector.trouble}

    def next_update(self, groups: list[NodeGroup], status: actuator_pb2.ActuatorStatus | None = None) -> Observation:
        """Return the changes since the last call, or the whole cluster.

        groups : node groups as declared in files; status : of the actuator, whose data on groups take precedence.
        Errors: KubernetesError while a kind is not listed or is stale, an object cannot be used, or a watch failed
        permanently.
        """
        self._refuse_stale()
        with self._lock:
            self._refuse_failure()
            if self.missing:
                raise KubernetesError(f"the cluster is not known yet: {', '.join(self.missing)} still to be listed")
            read = self._read(status)
            try:
                found = cloud_groups(groups, status)
                update = self._maker.next_update(found, read.actuation, group_of_instance(status))
            except InvalidInputError as error:
                raise KubernetesError(f"no snapshot can be made: {error}") from error
            notes = [*update.notes, *read.notes]
            if update.snapshot is not None:
                notes.extend(undeclared_groups(groups, status))
            return Observation(update, few(notes), self.absent)

    @property
    def absent(self) -> tuple[str, ...]:
        """The kinds that the server does not know, sorted."""
        return tuple(sorted(self._absent))

    def _read(self, status: actuator_pb2.ActuatorStatus | None) -> Read:
        """Read the actuator's status, unless neither it nor the pods have changed since the last call."""
        if status is None:
            return Read(None, [])
        if self._last_read is None or self._last_read[:2] != (self.store.revision, status):
            self._last_read = (self.store.revision, status, read_status(status, self.store.history))
        return self._last_read[2]

    def nodes(self) -> list[Node]:
        """Return all nodes as they are now."""
        with self._lock:
            return list(self.store.objects["Node"].values())

    def uid_of(self, kind: str, namespace: str, name: str) -> str:
        """Return the uid of an object, "" if it is not known."""
        with self._lock:
            if kind == "Pod":
                row = self.store.pods.get((namespace, name))
                return row.uid if row is not None else ""
            found = self.store.objects.get(kind, {}).get((namespace, name))
            return (found.metadata.uid or "") if found is not None else ""

    def pool_groups(self, declared: Sequence[NodeGroup], offers: Sequence[MachineOffer] | None = None) -> PoolGroups:
        """Return the node groups of NodePools as they are now. declared : other groups, whose nodes stay theirs; offers
        : machines that they may have, None = those that nodes have.
        """
        with self._lock:
            return store_pool_groups(self.store, declared, offers)

    def forget(self) -> None:
        """Make the next `next_update` return the whole cluster."""
        with self._lock:
            self._maker.forget()

    def requeue(self) -> None:
        """Make the next `next_update` return the last changes again, plus those since: they did not arrive."""
        with self._lock:
            self._maker.requeue()

    def put(self, kind: str, objects: Sequence[bytes]) -> None:
        """Store objects of a reflector."""
        with self._lock:
            self.store.put(kind, objects)

    def drop(self, kind: str, raw: bytes) -> None:
        """Remove an object of a reflector."""
        with self._lock:
            self.store.drop(kind, raw)

    def listing(self, kind: str) -> None:
        """Note that a reflector's list begins."""
        with self._lock:
            self.store.listing(kind)

    def listed(self, kind: str, is_absent: bool = False) -> None:
        """Note that a reflector's list is complete, or that the server does not know the kind."""
        with self._changed:
            self.store.listed(kind)
            self._listed.add(kind)
            (self._absent.add if is_absent else self._absent.discard)(kind)
            self._changed.notify_all()

    def _refuse_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _refuse_stale(self) -> None:
        """Raise when a kind is stale: a decision on an old state may remove nodes that are needed by now."""
        followed = [one for one in self._reflectors if one.resource.kind not in self._absent]
        oldest = max(followed, key=lambda one: one.stale_s)
        limit_s = oldest.settings.max_stale_s
        if oldest.stale_s > limit_s:
            what = oldest.trouble or "its watch is open, but nothing arrives, not even a bookmark"
            raise KubernetesError(f"{oldest.resource.plural} could not be followed for {oldest.stale_s:.0f} s: {what}")

    def _follow(self, reflector: Reflector) -> None:
        """Run a reflector until the end; if the server knows no version of the kind, ask again from time to time."""
        versions = reflector.resource.by_version
        while not self._stopped.is_set():
            for resource in versions:
                reflector.resource = resource
                if not self._run(reflector):
                    return
            if resource.kind not in self._absent:
                log.debug("kind_unknown", kind=resource.kind, group=resource.group)
            self.listing(resource.kind)
            self.listed(resource.kind, is_absent=True)
            self._stopped.wait(PAUSE_S)

    def _run(self, reflector: Reflector) -> bool:
        """Run a reflector; return whether the server does not know the kind. Any other error fails the cluster."""
        resource, begun_s = reflector.resource, time.monotonic()
        try:
            reflector.run()
        except ApiError as error:
            if error.status == 404:
                return True
            self._fail(
                MissingPermissionError(rules_yaml(resource.rules(User.SNAPSHOTS))) if error.is_forbidden else error
            )
        except Exception as error:
            log.exception("watch_failed", kind=resource.kind, after_s=round(time.monotonic() - begun_s, 1))
            self._fail(KubernetesError(f"watching {resource.plural} failed: {error}"))
        return False

    def _fail(self, failure: KubernetesError) -> None:
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()


class LivePoolGroups:
    """The node groups of NodePools for `RoundSettings.complete_groups`, and their settings for `complete_settings`."""

    def __init__(
        self, cluster: LiveCluster, warn: Callable[[str], None], offers: Sequence[MachineOffer] | None = None
    ) -> None:
        """`warn` gets each note about the pools, once. offers : as in `pool_groups`."""
        self._cluster, self._warn, self._offers = cluster, warn, offers
        self._settings = plan_pb2.PlanSettings()
        self._noted: set[str] = set()

    def groups(
        self, declared: tuple[NodeGroup, ...], _status: actuator_pb2.ActuatorStatus | None
    ) -> tuple[NodeGroup, ...]:
        """Return the declared groups and those of the NodePools."""
        found = self._cluster.pool_groups(declared, self._offers)
        self._settings = found.settings
        for text in found.notes:
            if text not in self._noted:
                self._noted.add(text)
                self._warn(text)
        return (*declared, *found.groups)

    @property
    def are_there(self) -> bool:
        """Whether the cluster had NodePools in the last call: they say which nodes may come, and no label does."""
        return has_pools(self._settings)

    def settings(self, plan_settings: plan_pb2.PlanSettings) -> plan_pb2.PlanSettings:
        """Return settings completed by what the pools of the last call ask."""
        return with_pool_settings(plan_settings, self._settings)
