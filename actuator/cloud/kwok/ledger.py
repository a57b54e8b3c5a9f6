"""The ledger of the cloud `kwok`: the requests that it has accepted, in a ConfigMap, which outlives the actuator.

Each change is made completely or not at all, and never overwrites a concurrent one. Never changes a node. Times
are Unix milliseconds.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from trimtab.actuator.kube.api import Call, KubeApi
from trimtab.actuator.kube.cluster import ClusterError, ConflictError, NotFoundError
from trimtab.common.kubernetes.json_envelope import decoder
from trimtab.common.kubernetes.registry import BY_KIND
from trimtab.common.rpc.retries import attempts, with_retries

T = TypeVar("T")

CONFIG_MAP = BY_KIND["ConfigMap"]
NAME = "trimtab-kwok-cloud"
CHANGES = attempts(12, 0.02, 0.5)
# Tokens of scale-ups that are kept: a request is not repeated after this many others.
MAX_TOKENS = 1_000
# Provider ids of deleted instances that are kept, the latest ones.
MAX_ENDED = 1_000


class Ending(msgspec.Struct):
    """An instance in deletion: its due time and provider id."""

    due_ms: int
    provider_id: str


class GroupEntry(msgspec.Struct):
    """The requests of a node group, besides the nodes that exist.

    By node name: `starting`, starting instances and their due times (0 = never); `deleting`, instances in deletion.
    """

    name_count: int = 0
    starting: dict[str, int] = {}
    deleting: dict[str, Ending] = {}
    ended: list[str] = []
    tokens: list[str] = []


class Ledger(msgspec.Struct):
    """All groups, by name. `epoch` counts the processes that have taken over the cloud."""

    groups: dict[str, GroupEntry] = {}
    epoch: int = 0


class SupersededError(ClusterError):
    """Another process has taken over the cloud: this one may not use it any more."""


class ConfigMapLedger:
    """The ledger in a ConfigMap."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._collection = CONFIG_MAP.path_in(namespace)
        # Epoch with which this process has taken over the cloud; None = it has not.
        self._epoch: int | None = None

    def read(self) -> Ledger:
        """Return the ledger. Raises `ClusterError`."""
        return self._read()[0]

    def take_over(self) -> None:
        """Refuse, from now on, requests of every process that took the cloud over before. Raises `ClusterError`."""

        def edit(ledger: Ledger) -> int:
            ledger.epoch += 1
            return ledger.epoch

        self._epoch = None
        self._epoch = self.change(edit)

    def change(self, edit: Callable[[Ledger], T]) -> T:
        """Change the ledger by `edit`, which may run several times.

        Raises what it raises, `SupersededError` when another process has taken over, `ClusterError`.
        """
        return with_retries(
            lambda: self._attempt(edit), lambda error: CHANGES if isinstance(error, ConflictError) else None
        )

    def _attempt(self, edit: Callable[[Ledger], T]) -> T:
        ledger, version = self._read()
        if self._epoch is not None and ledger.epoch != self._epoch:
            raise SupersededError(
                f"the request has epoch {self._epoch}, but another actuator has taken over the cloud with "
                f"{ledger.epoch}; only one may act"
            )
        before = msgspec.json.encode(ledger)
        result = edit(ledger)
        after = msgspec.json.encode(ledger)
        if after != before:
            self._write(after.decode(), version)
        return result

    def _read(self) -> tuple[Ledger, str]:
        try:
            config_map = self._api.json(Call("GET", f"{self._collection}/{NAME}"))
        except NotFoundError:
            return Ledger(), ""
        try:
            ledger = decoder(Ledger).decode(config_map["data"]["ledger"])
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise ClusterError(f"ConfigMap {self._namespace}/{NAME} is damaged: {error}") from error
        return ledger, config_map["metadata"]["resourceVersion"]

    def _write(self, text: str, version: str) -> None:
        metadata = {"name": NAME, "namespace": self._namespace} | ({"resourceVersion": version} if version else {})
        body = CONFIG_MAP.type_meta | {"metadata": metadata, "data": {"ledger": text}}
        # Not retried blindly: a write whose answer was lost appears as a conflict, and the edit runs again.
        if version:
            self._api.call(Call("PUT", f"{self._collection}/{NAME}", body=body, repeat=False))
        else:
            self._api.call(Call("POST", self._collection, body=body, repeat=False))
