"""Calls to an actuator with an embedded cluster: deletions and replacement nodes, watches, bad input."""

import json
from functools import partial
from random import Random
from typing import Any, Final

from tests.fuzz.mutations import damaged
from tests.soak.callers import break_connection
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.v1 import actuator_pb2, plan_pb2

TIMEOUT_S: Final = 120.0
METHODS: Final = (
    "StartDeletion",
    "ScaleUp",
    "ApplyTaints",
    "ApplyPodCosts",
    "CancelDeletion",
    "GetStatus",
    "WatchStatus",
)


class ActuatorCalls:
    """The calls of one caller to an actuator. fewest : number of nodes that the cluster keeps."""

    def __init__(self, address: str, fewest: int) -> None:
        self._fewest = fewest
        self._client = ActuatorClient(address, RetryPolicy(attempts=1), TIMEOUT_S)
        self._channel = connect(address)
        self._last: actuator_pb2.StartDeletionRequest | None = None
        self.calls = {
            "delete nodes": self._delete,
            "repeat a deletion": self._repeat,
            "give up deletions": self._give_up,
            "new nodes": self._grow,
            "taints": self._taints,
            "status": self._status,
            "watch, read in part": self._watch,
            "deletion of anything": self._strange,
            "damaged message": self._damaged,
            "bytes": self._bytes,
            "broken connection": partial(break_connection, address),
        }

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._channel.close()

    def _nodes(self) -> list[str]:
        items: list[dict[str, Any]] = json.loads(self._client.list_objects())["items"]
        return sorted(item["metadata"]["name"] for item in items if item["kind"] == "Node")

    def _delete(self, random: Random) -> None:
        nodes = self._nodes()
        if len(nodes) <= self._fewest:
            return
        chosen = random.sample(nodes, random.choice((1, 1, 2, 5)))
        entries = [actuator_pb2.NodeToDelete(node=node, drain=random.random() < 0.8) for node in chosen]
        self._last = actuator_pb2.StartDeletionRequest(request_id=random.randbytes(8).hex(), nodes=entries)
        self._client.start_deletion(self._last)

    def _repeat(self, random: Random) -> None:
        del random
        if self._last is not None:
            self._client.start_deletion(self._last)

    def _give_up(self, random: Random) -> None:
        del random
        status = self._client.get_status(without_finished=True)
        self._client.cancel_deletion([one.node for one in status.deletions][:1])

    def _grow(self, random: Random) -> None:
        """Restore the nodes of every group that has shrunk, one by one."""
        groups = self._client.get_status(without_finished=True).node_groups
        group = random.choice(groups)
        split = plan_pb2.ScaleUpSplit(
            node_group=group.id, current_size=group.target_size, new_size=min(group.target_size + 2, group.max_size)
        )
        if len(self._nodes()) < 2 * self._fewest:
            self._client.scale_up(random.randbytes(8).hex(), [split])

    def _taints(self, random: Random) -> None:
        nodes = self._nodes()
        self._client.apply_taints(random.sample(nodes, min(len(nodes), random.randrange(4))))

    def _status(self, random: Random) -> None:
        self._client.get_status(random.random() < 0.5, random.random() < 0.5)

    def _watch(self, random: Random) -> None:
        watch = self._client.watch_status(random.random() < 0.5)
        next(watch)
        watch.close()  # type: ignore[attr-defined]

    def _strange(self, random: Random) -> None:
        names = ("no-such-node", "", "../secrets", "x" * 300, "\x00")
        entries = [actuator_pb2.NodeToDelete(node=random.choice(names), drain=True) for _ in range(3)]
        request_id = random.choice(("", random.randbytes(8).hex()))
        self._client.start_deletion(actuator_pb2.StartDeletionRequest(request_id=request_id, nodes=entries))

    def _damaged(self, random: Random) -> None:
        """Send a damaged copy of an earlier request. Nodes that it still names may be deleted."""
        if self._last is not None and (message := damaged(self._last, random)) is not None:
            self._client.start_deletion(message)  # type: ignore[arg-type]

    def _bytes(self, random: Random) -> None:
        """Send bytes that are not a message."""
        method = f"/trimtab.v1.Actuator/{random.choice(METHODS)}"
        for _ in self._channel.unary_stream(method)(random.randbytes(random.randrange(1, 60)), timeout=TIMEOUT_S):
            break
