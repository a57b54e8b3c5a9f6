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
from trimtab.planner.service.session import CachedObjects, CachedSnapshot, Session
from trimtab.planner.service.streams import Payload, ReceivedObjects
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

    cached: CachedSnapshot
    request: plan_pb2.PlanRequest
    notes: Sequence[str] = ()


def shared_parts(request: plan_pb2.PlanRequest, session: Session) -> SharedParts:
    """Return what the objects of a request share with those of the caller's requests before."""
    numbers, cached = annotations_read(request.settings), session.objects if request.base_version else None
    is_same = cached is not None and cached.objects.numbers == tuple(sorted(numbers))
    return cached.shared if cached is not None and is_same else SharedParts(numbers)


class SnapshotReader:
    """Reads the clusters of requests."""

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments

    def read(self, request: plan_pb2.PlanRequest, payload: Payload, session: Session, watch: StopWatch) -> ReadSnapshot:
        """Return the snapshot of a request."""
        if isinstance(payload, ReceivedObjects):
            return self._read_objects(request, payload, session, watch)
        if not request.base_version:
            with watch.stage("decode"):
                message = parse_snapshot(payload)
            return ReadSnapshot(self._whole(message, session, watch), request)
        base = self._base(request, session)
        if not payload and base.came_as_objects:
            nothing = ReceivedObjects(ObjectChanges(), shared_parts(request, session), None)
            return self._read_objects(request, nothing, session, watch)
        self._instruments.base("delta")
        if not payload:
            return ReadSnapshot(base, request)
        with watch.stage("decode"):
            delta = parse_delta(payload)
        return ReadSnapshot(self._changed(delta, base, session, watch), request)

    def _read_objects(
        self, request: plan_pb2.PlanRequest, received: ReceivedObjects, session: Session, watch: StopWatch
    ) -> ReadSnapshot:
        cached = CachedObjects(ClusterObjects(received.shared.numbers, check_limits), received.shared)
        if request.base_version:
            if session.objects is None or session.objects.objects.numbers != received.shared.numbers:
                raise self._unknown(request)
            cached = session.objects
        with cached.lock:
            if request.base_version not in (cached.version, cached.before):
                raise self._unknown(request)
            if request.base_version:
                self._base(request, session)
            with watch.stage("objects"):
                is_repeated = request.base_version != cached.version
                update = cached.objects.update(received.changes, received.status, is_repeated=is_repeated)
            try:
                snapshot = self._follow(cached, update, session, watch)
            except BaseException:
                # The objects are ahead of the snapshot: the caller sends all of them again.
                cached.snapshot, cached.before = None, ""
                raise
            snapshot.came_as_objects = True
            if is_repeated or snapshot is not cached.snapshot:
                cached.before = request.base_version
            cached.snapshot, session.objects = snapshot, cached
            settings = cached.objects.settings(request.settings, received.status)
        if settings is not request.settings:
            completed = plan_pb2.PlanRequest()
            completed.CopyFrom(request)
            completed.settings.CopyFrom(settings)
            request = completed
        return ReadSnapshot(snapshot, request, update.notes)

    def _follow(
        self, cached: CachedObjects, updated: ClusterUpdate, session: Session, watch: StopWatch
    ) -> CachedSnapshot:
        """Return the snapshot after an update of the objects."""
        update = updated.update
        if update.snapshot is not None:
            return self._whole(update.snapshot, session, watch)
        assert cached.snapshot is not None, "changes follow a whole snapshot"
        assert update.delta is not None
        self._instruments.base("delta")
        return cached.snapshot if update.is_empty else self._changed(update.delta, cached.snapshot, session, watch)

    def _whole(self, message: pb.ClusterSnapshot, session: Session, watch: StopWatch) -> CachedSnapshot:
        with watch.stage("columns"):
            snapshot = canonicalize(message, watch.limits)
        self._instruments.base("whole")
        return session.snapshots.get(snapshot.version) or CachedSnapshot(snapshot)

    def _changed(
        self, delta: pb.SnapshotDelta, base: CachedSnapshot, session: Session, watch: StopWatch
    ) -> CachedSnapshot:
        with watch.stage("columns"):
            specs = SpecReader(base.find(SpecsAsSentKey()))
            snapshot = apply_delta(base.snapshot, delta, base, watch.limits, specs.read)
        cached = session.snapshots.get(snapshot.version)
        if cached is None:
            cached = CachedSnapshot(snapshot, base)
            cached.put(SpecsAsSentKey(), specs.known)
        return cached

    def _base(self, request: plan_pb2.PlanRequest, session: Session) -> CachedSnapshot:
        base = session.snapshots.get(request.base_version)
        if base is None:
            raise self._unknown(request)
        return base

    def _unknown(self, request: plan_pb2.PlanRequest) -> Exception:
        self._instruments.base("unknown")
        return base_unknown(request)
