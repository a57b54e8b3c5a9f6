"""Keeps the planner's state across restarts and changes of the leader, so the timers of nodes continue. Decides what is
kept (since when nodes are unneeded, and why others are not; destinations of pods only in a file, since they are large
and only save time), how often it is written, and when a state is too old. Timers continue where they were when the
state was written: the time since then does not count, since nothing watched the nodes, and since it may be a difference
between two clocks. Kept is a compressed `PlanRequest` with `now`, `cluster` and `state`.

A state that cannot be read or belongs to another cluster is logged and not used. Units: seconds; times are Unix
seconds.
"""

import base64
import binascii
import contextlib
from pathlib import Path
from typing import Protocol

import structlog
import zstandard
from google.protobuf.message import DecodeError

from trimtab.clients.loop.loop_clock import shift
from trimtab.common.documents.output import write_whole
from trimtab.common.kubernetes.api import Api, Json
from trimtab.common.kubernetes.errors import ApiError, KubernetesError
from trimtab.common.kubernetes.registry import BY_KIND
from trimtab.v1 import plan_pb2

log = structlog.get_logger("loop")
_CONFIG_MAP = BY_KIND["ConfigMap"]

KEY = "state"
MOST_CONFIG_MAP_BYTES = 900 << 10
"""Kubernetes allows 1 MiB for all of a ConfigMap."""
MOST_FILE_BYTES = 256 << 20
_PRIVATE = 0o600
PAUSE_S = 20.0
"""Shortest time between two writes."""
REFRESH_S = 60.0
"""Longest time between two writes of an unchanged state: its time shows that a loop is still running."""


class StateStorage(Protocol):
    """Storage of bytes. `limit_bytes` : most bytes; `is_cheap` : whether large states may be written often."""

    limit_bytes: int
    is_cheap: bool

    def read(self) -> bytes | None:
        """Return the kept bytes; None for none. Errors: KubernetesError, OSError, ValueError."""

    def write(self, data: bytes) -> None:
        """Replace the kept bytes by `data`. Errors: KubernetesError, OSError."""


class StateFile:
    """A file, replaced as a whole."""

    limit_bytes, is_cheap = MOST_FILE_BYTES, True

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> bytes | None:
        """Return the file; None when there is none."""
        with contextlib.suppress(FileNotFoundError):
            return self._path.read_bytes()
        return None

    def write(self, data: bytes) -> None:
        """Write the file, which only its owner may read: it names nodes and pods."""
        write_whole(self._path, data, _PRIVATE)


class StateConfigMap:
    """The ConfigMap NAMESPACE/NAME; `read` and `write` raise KubernetesError."""

    limit_bytes, is_cheap = MOST_CONFIG_MAP_BYTES, False

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self._api, self._namespace, self._name = api, namespace, name
        self._path = _CONFIG_MAP.path_in(namespace, name)

    def read(self) -> bytes | None:
        """Return the bytes; None when there is no such ConfigMap."""
        try:
            found = self._api.json("GET", self._path)
        except ApiError as error:
            # Not of a proxy, for example: the loop would begin without the state, and replace it.
            if error.proves_absence(self._path):
                return None
            raise
        try:
            text = (found.get("binaryData") or {}).get(KEY)
            return base64.b64decode(text, validate=True) if text else None
        except (AttributeError, TypeError, binascii.Error) as error:
            raise ValueError(f"binaryData.{KEY} is not base64: {error}") from error

    def write(self, data: bytes) -> None:
        """Replace the bytes, in a new ConfigMap if there is none."""
        fields: Json = {"binaryData": {KEY: base64.b64encode(data).decode()}}
        self._api.merge_or_create(_CONFIG_MAP, self._namespace, self._name, fields)


class StateKeeper:
    """Keeps the state of one cluster in a place. One leader writes at a time."""

    def __init__(self, place: StateStorage, cluster: str, max_age_s: float) -> None:
        self._place, self._cluster, self._max_age_s = place, cluster, max_age_s
        self._last = b""
        self._written_s = float("-inf")

    def load(self, now_s: float) -> plan_pb2.PlanState | None:
        """Return the state to continue from. Errors: KubernetesError if it is not known whether there is one."""
        try:
            data = self._place.read()
            kept = _unpacked(data, self._place.limit_bytes) if data else None
        except (OSError, ValueError) as error:
            log.warning("state_unusable", error=str(error))
            return None
        if kept is None:
            return None
        age_s = now_s - kept.now.ToNanoseconds() / 1e9
        if kept.cluster != self._cluster:
            log.warning("state_unusable", error=f"it belongs to the cluster {kept.cluster!r}")
        elif age_s > self._max_age_s:
            log.warning("state_too_old", age_s=round(age_s), max_age_s=self._max_age_s)
        else:
            # Either nothing watched the nodes since then, or the clocks differ; both look the same. Neither counts for
            # timers.
            shift(kept.state, age_s)
            log.info("state_resumed", age_s=round(age_s, 1), unneeded=_unneeded_count(kept.state.scale_down))
            return kept.state
        return None

    def save(self, state: plan_pb2.PlanState, now_s: float, is_last: bool = False) -> None:
        """Keep a state, at intervals; `is_last` = at once. A failed write is only logged."""
        since_s = now_s - self._written_s
        if 0 <= since_s < PAUSE_S and not is_last:
            return
        kept = plan_pb2.PlanRequest(cluster=self._cluster, state=state)
        if not self._place.is_cheap:
            kept.state.scale_down.ClearField("opaque")
        content = kept.SerializeToString(deterministic=True)
        if content == self._last and 0 <= since_s < REFRESH_S and not is_last:
            return
        kept.now.FromNanoseconds(int(now_s * 1e9))
        try:
            self._place.write(_packed(kept, self._place.limit_bytes))
        except (KubernetesError, OSError, ValueError) as error:
            log.warning("state_not_kept", error=str(error))
            return
        self._last, self._written_s = content, now_s


def _unneeded_count(state: plan_pb2.ScaleDownState) -> int:
    """Return how many nodes of a state are unneeded, in any wave."""
    return (len(state.unneeded.node) + len(state.later_waves.node)) // 4


def _packed(kept: plan_pb2.PlanRequest, limit_bytes: int) -> bytes:
    """Compress a state, without optional parts if it would be too large. Errors: ValueError if it still is."""
    for field in ("", "opaque", "unremovable"):
        if field:
            kept.state.scale_down.ClearField(field)  # type: ignore[arg-type]
        data = zstandard.ZstdCompressor(level=3).compress(kept.SerializeToString(deterministic=True))
        if len(data) <= limit_bytes:
            return data
    raise ValueError(f"the state takes {len(data)} bytes, its place holds {limit_bytes}; use --state-file")


def _unpacked(data: bytes, limit_bytes: int) -> plan_pb2.PlanRequest:
    """Undo `_packed`. Errors: ValueError."""
    try:
        plain = zstandard.ZstdDecompressor().decompress(data, max_output_size=max(limit_bytes, MOST_FILE_BYTES))
        return plan_pb2.PlanRequest.FromString(plain)
    except (zstandard.ZstdError, DecodeError) as error:
        raise ValueError(f"the kept state is damaged: {error}") from error
