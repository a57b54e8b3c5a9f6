"""The snapshot of a request, whichever door the cluster came through: bytes of a snapshot or delta, or objects.

Decides from which base a request continues. A snapshot depends only on what the request and those before it sent, never
on what is cached: a caller whose base or whose objects are gone sends the whole cluster. Raises ServiceError, and the
errors of the pure packages. Thread-safe.
"""

from collections.abc import Sequence
from typing import NamedTuple

from trimtab.common.objects.annotated_numbers import annotations_read
from trimtab.common.watched.cluster_objects import ClusterObjects, ClusterUpdate
from trimtab.common.watched.received_objects import ObjectChanges, SharedParts
from trimtab.planner.model.execution import check_limits
from trimtab.planner.service.failures import base_unknown
from trimtab.planner.service.measurement import Instruments, StopWatch
from trimtab.planner.service.streams import Payload, ReceivedObjects
from trimtab.planner.service.version_cache import CachedObjects, CachedSnapshot, CacheScope, VersionCache
from trimtab.planner.snapshot.caches import SuccessorKey
from trimtab.planner.snapshot.decode import canonicalize, parse_snapshot
from trimtab.planner.snapshot.delta import apply_delta, parse_delta
from trimtab.planner.snapshot.pod_specs import SpecReader, SpecsAsSent
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb


class SpecsAsSentKey(SuccessorKey[SpecsAsSent]):
    """The pod specs of the messages so far."""


class ReadSnapshot(NamedTuple):
    """A snapshot, and the request with the settings that its objects ask for. notes : on the objects."""

    kept: CachedSnapshot
    request: plan_pb2.PlanRequest
    notes: Sequence[str] = ()


class SnapshotReader:
    """Reads the clusters of requests."""

    def __init__(self, cache: VersionCache, instruments: Instruments) -> None:
        self._cache, self._instruments = cache, instruments

    def read(
        self, request: plan_pb2.PlanRequest, payload: Payload, scope: CacheScope, watch: StopWatch
    ) -> ReadSnapshot:
        """Return the snapshot of a request."""
        if isinstance(payload, ReceivedObjects):
            return self._of_objects(request, payload, scope, watch)
        if not request.base_version:
            with watch.stage("decode"):
                message = parse_snapshot(payload)
            return ReadSnapshot(self._whole(message, scope, watch), request)
        base = self._base(request, scope)
        if not payload and base.came_as_objects:
            nothing = ReceivedObjects(ObjectChanges(), self.shared(request, scope), None)
            return self._of_objects(request, nothing, scope, watch)
        self._instruments.base("delta")
        if not payload:
            return ReadSnapshot(base, request)
        with watch.stage("decode"):
            delta = parse_delta(payload)
        return ReadSnapshot(self._changed(delta, base, scope, watch), request)

    def shared(self, request: plan_pb2.PlanRequest, scope: CacheScope) -> SharedParts:
        """Return what the objects of a request share with those of the caller's requests before."""
        numbers = annotations_read(request.settings)
        session = self._cache.objects(scope) if request.base_version else None
        same = session is not None and session.objects.numbers == tuple(sorted(numbers))
        return session.shared if session is not None and same else SharedParts(numbers)

    def _of_objects(
        self, request: plan_pb2.PlanRequest, received: ReceivedObjects, scope: CacheScope, watch: StopWatch
    ) -> ReadSnapshot:
        session = CachedObjects(ClusterObjects(received.shared.numbers, check_limits), received.shared)
        if request.base_version:
            known = self._cache.objects(scope)
            if known is None or known.objects.numbers != received.shared.numbers:
                raise self._unknown(request)
            session = known
        with session.lock:
            if request.base_version not in (session.version, session.before):
                raise self._unknown(request)
            if request.base_version:
                self._base(request, scope)
            with watch.stage("objects"):
                is_repeated = request.base_version != session.version
                update = session.objects.update(received.changes, received.status, is_repeated=is_repeated)
            try:
                kept = self._follow(session, update, scope, watch)
            except BaseException:
                # The objects are ahead of the snapshot: the caller sends all of them again.
                session.kept, session.before = None, ""
                raise
            kept.came_as_objects = True
            if is_repeated or kept is not session.kept:
                session.before = request.base_version
            session.kept = kept
            self._cache.keep_objects(scope, session)
            settings = session.objects.settings(request.settings, received.status)
        if settings is not request.settings:
            completed = plan_pb2.PlanRequest()
            completed.CopyFrom(request)
            completed.settings.CopyFrom(settings)
            request = completed
        return ReadSnapshot(kept, request, update.notes)

    def _follow(
        self, session: CachedObjects, found: ClusterUpdate, scope: CacheScope, watch: StopWatch
    ) -> CachedSnapshot:
        """Return the snapshot after an update of a session."""
        update = found.update
        if update.snapshot is not None:
            return self._whole(update.snapshot, scope, watch)
        assert session.kept is not None, "changes follow a whole snapshot"
        assert update.delta is not None
        self._instruments.base("delta")
        return session.kept if update.is_empty else self._changed(update.delta, session.kept, scope, watch)

    def _whole(self, message: pb.ClusterSnapshot, scope: CacheScope, watch: StopWatch) -> CachedSnapshot:
        with watch.stage("columns"):
            snapshot = canonicalize(message, watch.limits)
        self._instruments.base("whole")
        return self._cache.snapshot(scope, snapshot.version) or CachedSnapshot(snapshot)

    def _changed(
        self, delta: pb.SnapshotDelta, base: CachedSnapshot, scope: CacheScope, watch: StopWatch
    ) -> CachedSnapshot:
        with watch.stage("columns"):
            specs = SpecReader(base.find(SpecsAsSentKey()))
            snapshot = apply_delta(base.snapshot, delta, base, watch.limits, specs.read)
        known = self._cache.snapshot(scope, snapshot.version)
        if known is not None:
            return known
        following = CachedSnapshot(snapshot, base)
        following.put(SpecsAsSentKey(), specs.known)
        return following

    def _base(self, request: plan_pb2.PlanRequest, scope: CacheScope) -> CachedSnapshot:
        base = self._cache.snapshot(scope, request.base_version)
        if base is None:
            raise self._unknown(request)
        return base

    def _unknown(self, request: plan_pb2.PlanRequest) -> Exception:
        self._instruments.base("unknown")
        return base_unknown(request)
