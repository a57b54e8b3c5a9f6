"""Leadership by a Kubernetes Lease: at most one process acts.

Decides whether this process leads. A leader renews the Lease. It stops leading when it could not renew for
`renew_deadline_s`, which is before others may take over. When it ends, it releases the Lease, so the next leader need
not wait. Times of other processes are never compared with this process's clock: a Lease is stale when this process has
seen no change of it for its duration. Units: seconds.

The `kubernetes` package has a leader election too, but it can neither be stopped nor release the Lease.
Source: client-go, tools/leaderelection (the rules), coordination.k8s.io/v1.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from trimtab.common.kubernetes.errors import ApiError, KubernetesError
from trimtab.common.kubernetes.registry import BY_KIND

if TYPE_CHECKING:  # settings are read where the packages that a connection needs may be absent
    from trimtab.common.kubernetes.api import Api, Json

log = structlog.get_logger("lease")
_LEASE = BY_KIND["Lease"]

# Most transitions of one Lease: at one each second, reached within twelve days.
MOST_TRANSITIONS = 1 << 20


@dataclass(frozen=True)
class LeaseSettings:
    """Which Lease, and its times, which are client-go's defaults."""

    # Namespace and name of the Lease.
    namespace: str = "kube-system"
    name: str = "trimtab"
    # After this time without renewal, others may take over.
    duration_s: float = 15.0
    # After this time without renewal, a leader stops leading; less than `duration_s`.
    renew_deadline_s: float = 10.0
    # Between two attempts.
    retry_period_s: float = 2.0


class Lease:
    """One candidate. `start` keeps trying in the background; `is_held` is true while it is safe to act."""

    def __init__(
        self, api: Api, identity: str, settings: LeaseSettings | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        """`identity` must differ between processes; `clock` is monotonic, in seconds."""
        self.identity = identity
        self.settings = settings or LeaseSettings()
        self.holder = ""
        # The term of our leadership, for the receivers of orders: each leader's is greater than that of the one before,
        # even if the Lease is deleted in between. 0 = we have not led yet.
        self.epoch = 0
        self._api, self._clock = api, clock or time.monotonic
        self._renewed_s: float | None = None
        self._seen: tuple[Any, ...] = ()
        self._seen_s = 0.0
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_held(self) -> bool:
        """Return whether the Lease is held and was renewed recently enough."""
        renewed_s = self._renewed_s
        return renewed_s is not None and self._clock() - renewed_s < self.settings.renew_deadline_s

    def start(self, on_gain: Callable[[], None] | None = None, on_loss: Callable[[], None] | None = None) -> None:
        """Try in the background; `on_gain` is called each time this process becomes the leader.

        `on_loss` is called once when it no longer leads, and ends the attempts; without `on_loss` they continue.
        """
        self._thread = threading.Thread(
            target=self._run, args=(on_gain or _nothing, on_loss), name="lease", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop trying and release the Lease."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(self.settings.renew_deadline_s)
        if self.is_held:
            self._renewed_s = None
            self._release()

    def attempt(self) -> bool:
        """Take or renew the Lease if that is allowed; return whether it is held now. Raises no KubernetesError."""
        begun_s = self._clock()
        try:
            if self._take():
                self._renewed_s = begun_s
            elif self.holder != self.identity:
                self._renewed_s = None
        except KubernetesError as error:
            log.warning("lease_not_renewed", lease=self.settings.name, error=str(error))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # An answer that is no Lease, such as a proxy's: without this, the attempts would end for ever.
            log.warning("lease_not_renewed", lease=self.settings.name, error=f"the answer is no Lease: {error!r}")
        return self.is_held

    def _run(self, on_gain: Callable[[], None], on_loss: Callable[[], None] | None) -> None:
        held = False
        while not self._stopped.is_set():
            before, held = held, self.attempt()
            if held and not before:
                log.info("leading", lease=self.settings.name, identity=self.identity)
                # `on_gain` may take long, and the Lease has to be renewed meanwhile.
                threading.Thread(target=on_gain, name="lead", daemon=True).start()
            elif before and not held:
                log.error("no_longer_leading", lease=self.settings.name, holder=self.holder)
                if on_loss is not None:
                    on_loss()
                    return
            self._stopped.wait(self.settings.retry_period_s)

    def _take(self) -> bool:
        """Make one attempt. The first write wins: it names the version that was read."""
        lease = self._read()
        if lease is None:
            return self._write("POST", _LEASE.path_in(self.settings.namespace), self._document({}, None))
        spec = lease.get("spec") or {}
        self.holder = spec.get("holderIdentity") or ""
        if self.holder not in ("", self.identity) and not self._is_stale(spec):
            return False
        return self._write("PUT", self._path, self._document(spec, lease["metadata"]))

    def _is_stale(self, spec: Json) -> bool:
        record = tuple(spec.get(key) for key in ("holderIdentity", "renewTime", "leaseTransitions"))
        if record != self._seen:
            self._seen, self._seen_s = record, self._clock()
        duration_s = float(spec.get("leaseDurationSeconds") or self.settings.duration_s)
        return self._clock() - self._seen_s >= duration_s

    def _read(self) -> Json | None:
        try:
            return self._call("GET", self._path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def _write(self, method: str, path: str, document: Json) -> bool:
        try:
            written = self._call(method, path, document)
        except ApiError as error:
            if error.status == 409:  # another candidate was faster
                return False
            raise
        self.holder = document["spec"]["holderIdentity"] or ""
        self.epoch = _epoch(written)
        return True

    def _call(self, method: str, path: str, document: Json | None = None) -> Json:
        """Send a request with a timeout that leaves time for another one before the deadline."""
        return self._api.json(method, path, document, timeout_s=self.settings.renew_deadline_s / 2)

    def _release(self) -> None:
        try:
            lease = self._read()
            if lease is not None and (lease.get("spec") or {}).get("holderIdentity") == self.identity:
                document = self._document(lease["spec"], lease["metadata"])
                document["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                self._write("PUT", self._path, document)
        except (KubernetesError, AttributeError, LookupError, TypeError, ValueError) as error:
            log.warning("lease_not_released", lease=self.settings.name, error=str(error))

    def _document(self, old: Json, metadata: Json | None) -> Json:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        mine = old.get("holderIdentity") == self.identity
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self.settings.duration_s)),
            "acquireTime": old.get("acquireTime", now) if mine else now,
            "renewTime": now,
            "leaseTransitions": (old.get("leaseTransitions") or 0) + (0 if mine or not old else 1),
        }
        named = {"name": self.settings.name, "namespace": self.settings.namespace}
        return _LEASE.type_meta | {"metadata": metadata if metadata is not None else named, "spec": spec}

    @property
    def _path(self) -> str:
        return _LEASE.path_in(self.settings.namespace, self.settings.name)


def _epoch(lease: Json) -> int:
    """When the Lease was created, by the API server's clock, and its number of transitions since; 0 = not known."""
    created = (lease.get("metadata") or {}).get("creationTimestamp")
    if not created:
        return 0
    created_s = int(datetime.fromisoformat(created).timestamp())
    return created_s * MOST_TRANSITIONS + int((lease.get("spec") or {}).get("leaseTransitions") or 0)


def _nothing() -> None:
    """Do nothing."""
