"""The cloud `kwok`: instances are Node objects, made and deleted after a delay.

Decides what the cloud accepts, how long things take and what fails; failures are drawn from a seed, so a run can be
repeated. The target size is the nodes that are not ending and the instances on their way, so it cannot disagree
with them. Times are Unix milliseconds, durations seconds.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import structlog

from actuator.cloud.kwok.books import MAX_TOKENS, Books, ConfigMapBooks, GroupBook
from actuator.cloud.kwok.groups import KWOK_LABEL, Group, group_of
from actuator.cloud.kwok.settings import KwokSettings
from actuator.cloud.provider import CloudError, CloudRefusedError, InstanceState, NodeGroupView
from actuator.kube.api import METADATA_LIST, Api, Call
from actuator.kube.cluster import ClusterError, ConflictError, NotFoundError, RefusedError
from actuator.kube.objects import Node, NodeList, read
from actuator.leadership import NotLeaderError

log = structlog.get_logger("kwok")

PAGE = 500


class KwokCloud:
    """A `CloudProvider` (see `actuator.cloud.provider`)."""

    name = "kwok"

    def __init__(
        self,
        api: Api,
        groups: Mapping[str, Group],
        settings: KwokSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._groups = dict(sorted(groups.items()))
        self._settings = settings or KwokSettings()
        self._clock = clock
        self._books = ConfigMapBooks(api, self._settings.namespace)
        self._call_count = 0

    def node_groups(self) -> Sequence[NodeGroupView]:
        """All node groups, sorted by id."""
        with _cloud_errors():
            books, nodes = self._books.read(), self._nodes()
        return [
            NodeGroupView(
                group.name,
                group.min_size,
                group.max_size,
                len(_living(_book(books, group.name), nodes[group.name])),
                len(nodes[group.name]),
            )
            for group in self._groups.values()
        ]

    def groups_of(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """The node group of each node that has one."""
        with _cloud_errors():
            found = self._nodes()
        group_by_node = {node: group for group, names in found.items() for node in names}
        return {node: group_by_node[node] for node in nodes if node in group_by_node}

    def delete_instances(self, group: str, nodes: Sequence[str]) -> Mapping[str, CloudError]:
        """Start the deletion of instances."""
        self._fail("delete_instances")
        failed: dict[str, CloudError] = {}

        def edit(books: Books) -> None:
            failed.clear()
            present, book = self._nodes(), _book(books, group)
            for node in nodes:
                refusal = self._delete(group, node, present, book)
                if refusal:
                    failed[node] = CloudRefusedError(refusal)

        with _cloud_errors():
            self._books.change(edit)
        return failed

    def instance_states(self, group: str, nodes: Sequence[str]) -> Mapping[str, InstanceState]:
        """The state of each instance."""
        self._fail("instance_states")
        with _cloud_errors():
            # Nodes last: one that the books forget has gone before.
            book = _book(self._books.read(), group)
            present = {name for names in self._nodes().values() for name in names}

        def state(node: str) -> InstanceState:
            if node not in present and node not in book.starting:
                return InstanceState.GONE
            return InstanceState.DELETING if node in book.deleting else InstanceState.RUNNING

        return {node: state(node) for node in nodes}

    def grow(self, group: str, delta: int, token: str) -> None:
        """Raise the target size once for each token."""
        self._fail("grow")
        if group not in self._groups:
            raise CloudRefusedError(f"node group {group} does not exist")

        def edit(books: Books) -> None:
            book = _book(books, group)
            if token not in book.tokens:
                self._grow(book, self._groups[group], delta, token)

        with _cloud_errors():
            self._books.change(edit)

    def open(self) -> None:
        """Give groups that were never seen the size they start with. Raises `CloudError`."""

        def edit(books: Books) -> None:
            for name, group in self._groups.items():
                if name in books.groups:
                    continue
                book = books.groups[name] = GroupBook()
                missing = group.target_size - len(self._nodes()[name])
                if missing > 0:
                    self._grow(book, group, missing, "initial size")

        with _cloud_errors():
            self._books.change(edit)

    def let_pass(self) -> None:
        """Make and delete the nodes that are due. Raises `CloudError`."""
        with _cloud_errors():
            books = self._books.read()
            if not any(book.starting or book.deleting for book in books.groups.values()):
                return
            now_ms, nodes = int(self._clock() * 1000), self._nodes()
            started = {name: self._start(name, book, nodes[name], now_ms) for name, book in self._known(books)}
            ended = {name: self._end(book, now_ms) for name, book in self._known(books)}

            def edit(books: Books) -> None:
                for name, book in self._known(books):
                    book.starting = {node: due for node, due in book.starting.items() if node not in started[name]}
                    book.deleting = {node: due for node, due in book.deleting.items() if node not in ended[name]}

            if any(started.values()) or any(ended.values()):
                self._books.change(edit)

    def _known(self, books: Books) -> list[tuple[str, GroupBook]]:
        return [(name, book) for name, book in sorted(books.groups.items()) if name in self._groups]

    def _start(self, name: str, book: GroupBook, present: set[str], now_ms: int) -> set[str]:
        """Make the nodes that are due while there is capacity; returns those that exist now."""
        group, done = self._groups[name], set()
        room = None if group.capacity is None else group.capacity - len(present)
        for node, due_ms in sorted(book.starting.items()):
            if due_ms == 0 or due_ms > now_ms:
                continue
            if node not in present:
                if room is not None and room < 1:
                    continue
                room = None if room is None else room - 1
                try:
                    self._api.call(Call("POST", "/api/v1/nodes", body=group.new_node(node)))
                except ConflictError:
                    log.info("node was there already", node=node)
            done.add(node)
        return done

    def _end(self, book: GroupBook, now_ms: int) -> set[str]:
        """Delete the nodes that are due; returns those that are gone now."""
        done = set()
        for node, due_ms in sorted(book.deleting.items()):
            if due_ms > now_ms:
                continue
            try:
                self._api.call(Call("DELETE", f"/api/v1/nodes/{node}"))
            except NotFoundError:
                log.info("node was gone already", node=node)
            done.add(node)
        return done

    def _delete(self, group: str, node: str, present: Mapping[str, set[str]], book: GroupBook) -> str:
        """Enter one deletion; why not, "" = it is entered, or there is nothing to delete."""
        owner = next((name for name, names in present.items() if node in names), None)
        if owner is None or node in book.deleting:
            return ""
        if owner != group:
            return f"{node} belongs to node group {owner}, not {group}"
        if len(_living(book, present[group])) <= self._groups[group].min_size:
            return f"node group {group} is at its minimum {self._groups[group].min_size}"
        book.deleting[node] = int((self._clock() + self._settings.instance_delete_s) * 1000)
        return ""

    def _grow(self, book: GroupBook, group: Group, delta: int, token: str) -> None:
        nodes = self._nodes()
        size = len(_living(book, nodes[group.name]))
        if size + delta > group.max_size:
            raise CloudRefusedError(
                f"node group {group.name}: size {size} + {delta} exceeds the maximum {group.max_size}"
            )
        due_ms = int((self._clock() + self._settings.node_start_s) * 1000)
        taken = {name for names in nodes.values() for name in names}
        for _ in range(delta):
            book.name_count += 1
            while f"{group.name}-{book.name_count}" in taken:
                book.name_count += 1
            name = f"{group.name}-{book.name_count}"
            fails = _chance(self._settings.seed, "start", name) < self._settings.start_failure_rate
            book.starting[name] = 0 if fails else due_ms
        book.tokens = [*book.tokens, token][-MAX_TOKENS:]

    def _nodes(self) -> dict[str, set[str]]:
        """Names of the nodes of each group. Raises `ClusterError`."""
        found: dict[str, set[str]] = {name: set() for name in self._groups}
        page = ""
        while True:
            query = {"labelSelector": "=".join(KWOK_LABEL), "limit": str(PAGE)} | ({"continue": page} if page else {})
            call = Call("GET", "/api/v1/nodes", query, accept=METADATA_LIST)
            nodes: NodeList = read(NodeList, self._api.call(call))
            for node in nodes.items or ():
                self._assign(node, found)
            page = nodes.metadata.next_page
            if not page:
                return found

    def _assign(self, node: Node, found: dict[str, set[str]]) -> None:
        group = group_of(node, self._groups.values())
        if group is not None:
            found[group].add(node.metadata.name)

    def _fail(self, operation: str) -> None:
        """Fail as if throttled, as often as the settings say."""
        self._call_count += 1
        if _chance(self._settings.seed, operation, str(self._call_count)) < self._settings.call_failure_rate:
            raise CloudError(f"{operation}: too many requests (as the settings want)")


class Caretaker:
    """A thread that lets the cloud's time pass while this process leads."""

    def __init__(self, cloud: KwokCloud, poll_s: float, may_act: Callable[[], bool]) -> None:
        self._cloud = cloud
        self._poll_s = poll_s
        self._may_act = may_act
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kwok", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, once what is under way is done."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(10.0)

    def _run(self) -> None:
        while not self._stopped.wait(self._poll_s):
            if not self._may_act():
                continue
            try:
                self._cloud.let_pass()
            except (CloudError, NotLeaderError) as error:
                log.warning("the cloud waits", detail=str(error))


def _book(books: Books, group: str) -> GroupBook:
    """The book of a group; a new one is part of the books from then on."""
    return books.groups.setdefault(group, GroupBook())


def _living(book: GroupBook, nodes: set[str]) -> set[str]:
    """What the target size counts."""
    return (nodes | book.starting.keys()) - book.deleting.keys()


def _chance(seed: int, *words: str) -> float:
    """A number from 0 to below 1 that depends on nothing but its arguments."""
    digest = hashlib.sha256("/".join((str(seed), *words)).encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


@contextmanager
def _cloud_errors() -> Iterator[None]:
    """Errors of the API server as the cloud's."""
    try:
        yield
    except RefusedError as error:
        raise CloudRefusedError(str(error)) from error
    except ClusterError as error:
        raise CloudError(str(error)) from error
