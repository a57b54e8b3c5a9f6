"""The books of the cloud `kwok`: what it was asked for, in a ConfigMap, since the outside world outlives an actuator.

Decides that each change is made whole or not at all, and never on top of what another process wrote meanwhile. Never
touches a node. Times are Unix milliseconds.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from actuator.kube.api import Api, Call
from actuator.kube.cluster import ClusterError, ConflictError, NotFoundError

T = TypeVar("T")

NAME = "trimtab-kwok-cloud"
ATTEMPTS = 12
# Tokens of growths that are remembered: a request is not repeated after so many others.
MAX_TOKENS = 1_000


class GroupBook(msgspec.Struct):
    """What a group was asked for beyond the nodes that exist.

    `starting`: instances on their way and when they come (0 = never); `deleting`: those that end, and when.
    """

    name_count: int = 0
    starting: dict[str, int] = {}
    deleting: dict[str, int] = {}
    tokens: list[str] = []


class Books(msgspec.Struct):
    """All groups, by name."""

    groups: dict[str, GroupBook] = {}


class ConfigMapBooks:
    """Books in a ConfigMap."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"

    def read(self) -> Books:
        """The books as they are. Raises `ClusterError`."""
        return self._read()[0]

    def change(self, edit: Callable[[Books], T]) -> T:
        """Let `edit` change the books; it may run several times. Raises what it raises, `ClusterError`."""
        retrying = Retrying(
            retry=retry_if_exception_type(ConflictError),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(0.02, 0.5),
            reraise=True,
        )
        result: T = retrying(self._attempt, edit)
        return result

    def _attempt(self, edit: Callable[[Books], T]) -> T:
        books, version = self._read()
        before = msgspec.json.encode(books)
        result = edit(books)
        after = msgspec.json.encode(books)
        if after != before:
            self._write(after.decode(), version)
        return result

    def _read(self) -> tuple[Books, str]:
        try:
            found = self._api.json(Call("GET", f"{self._collection}/{NAME}"))
        except NotFoundError:
            return Books(), ""
        try:
            books = msgspec.json.decode(found["data"]["books"], type=Books)
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise ClusterError(f"ConfigMap {self._namespace}/{NAME} is damaged: {error}") from error
        return books, found["metadata"]["resourceVersion"]

    def _write(self, text: str, version: str) -> None:
        metadata = {"name": NAME, "namespace": self._namespace} | ({"resourceVersion": version} if version else {})
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"books": text}}
        # Not repeated blindly: one whose answer was lost is seen as a conflict, and the edit looks again.
        if version:
            self._api.call(Call("PUT", f"{self._collection}/{NAME}", body=body, repeat=False))
        else:
            self._api.call(Call("POST", self._collection, body=body, repeat=False))
