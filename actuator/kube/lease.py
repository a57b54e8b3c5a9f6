"""Leadership by a Kubernetes Lease: at most one actuator acts.

Decides whether this process leads. A leader renews; it counts itself out when it could not for `renew_deadline_s`,
which is before others may take over, and it never comes back: the process ends and starts anew. Clocks of other
processes are never compared with ours: a Lease is stale when it has not changed for its duration while we watched.
Durations in seconds. Source: client-go, tools/leaderelection (the rules), coordination.k8s.io/v1.
"""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog

from actuator.kube.api import Api, Call, ConflictError, Json
from actuator.kube.cluster import ClusterError, NotFoundError
from actuator.kube.settings import LeaseSettings

log = structlog.get_logger("lease")


class Lease:
    """One candidate."""

    def __init__(self, api: Api, identity: str, settings: LeaseSettings | None = None) -> None:
        """`identity` must differ between processes."""
        self.identity = identity
        self.settings = settings or LeaseSettings()
        self.holder = ""
        self._api = api
        self._renewed_s: float | None = None
        self._seen: tuple[Any, ...] = ()
        self._seen_s = 0.0
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_held(self) -> bool:
        """Whether we hold the Lease and renewed it lately enough."""
        renewed_s = self._renewed_s
        return renewed_s is not None and time.monotonic() - renewed_s < self.settings.renew_deadline_s

    def start(self, on_gain: Callable[[], None], on_loss: Callable[[], None]) -> None:
        """Try in the background; `on_gain` is called when the Lease is ours, `on_loss` once when it no longer is."""
        self._thread = threading.Thread(target=self._run, args=(on_gain, on_loss), name="lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop trying and give the Lease back, so that the next one need not wait."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(self.settings.renew_deadline_s)
        if self.is_held:
            self._renewed_s = None
            self._give_back()

    def attempt(self) -> bool:
        """Take or renew the Lease if that is allowed; whether it is ours now. Never raises for the cluster."""
        begun_s = time.monotonic()
        try:
            if self._take():
                self._renewed_s = begun_s
            elif self.holder != self.identity:
                self._renewed_s = None
        except ClusterError as error:
            log.warning("lease not renewed", lease=self.settings.name, detail=str(error))
        return self.is_held

    def _run(self, on_gain: Callable[[], None], on_loss: Callable[[], None]) -> None:
        while not self.attempt():
            if self._stopped.wait(self.settings.retry_period_s):
                return
        log.info("leading", lease=self.settings.name, identity=self.identity)
        # What is done on gaining may take long, and the Lease has to be renewed meanwhile.
        threading.Thread(target=on_gain, name="lead", daemon=True).start()
        while not self._stopped.wait(self.settings.retry_period_s):
            if not self.attempt():
                log.error("no longer leading", lease=self.settings.name, holder=self.holder)
                on_loss()
                return

    def _take(self) -> bool:
        """One attempt. Whoever writes first wins: the write names the version that was read."""
        try:
            found = self._api.json(Call("GET", self._path, repeat=False))
        except NotFoundError:
            return self._write("POST", self._collection, self._document({}, None))
        spec = found.get("spec") or {}
        self.holder = spec.get("holderIdentity") or ""
        if self.holder not in ("", self.identity) and not self._is_stale(spec):
            return False
        return self._write("PUT", self._path, self._document(spec, found["metadata"]))

    def _is_stale(self, spec: Json) -> bool:
        record = tuple(spec.get(key) for key in ("holderIdentity", "renewTime", "leaseTransitions"))
        if record != self._seen:
            self._seen, self._seen_s = record, time.monotonic()
        duration_s = float(spec.get("leaseDurationSeconds") or self.settings.duration_s)
        return time.monotonic() - self._seen_s >= duration_s

    def _write(self, method: str, path: str, document: Json) -> bool:
        try:
            self._api.call(Call(method, path, body=document, repeat=False))
        except ConflictError:  # another candidate was quicker
            return False
        self.holder = document["spec"]["holderIdentity"] or ""
        return True

    def _give_back(self) -> None:
        try:
            found = self._api.json(Call("GET", self._path))
            if (found.get("spec") or {}).get("holderIdentity") == self.identity:
                document = self._document(found["spec"], found["metadata"])
                document["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                self._write("PUT", self._path, document)
        except ClusterError as error:
            log.warning("lease not given back", lease=self.settings.name, detail=str(error))

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
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata if metadata is not None else named,
            "spec": spec,
        }

    @property
    def _collection(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.settings.namespace}/leases"

    @property
    def _path(self) -> str:
        return f"{self._collection}/{self.settings.name}"
