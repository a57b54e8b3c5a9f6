"""A history with every kind of event, written in this version's format, which later versions have to read.

Usage: python -m tests.stored.history DIRECTORY      once per release; its output never changes again.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from trimtab.actuator.store.journal import Journal
from trimtab.actuator.store.sql import SqlStore, sqlite_url
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.states import GroupGrowth, GrowthAnswer, NodeAnswer, PodRef

STORE, DATA = "store.sqlite", "data.json"
FIRST_MS, STEP_MS = 1_790_000_000_000, 1_000
PODS = (PodRef("default", "web-1", "uid-1", "ReplicaSet"), PodRef("default", "web-2", "uid-2", "ReplicaSet"))


def accepted(request: str, *nodes: str, drain: bool) -> e.SetAccepted:
    planned = tuple(e.PlannedNode(node, "pool", drain, provider_id=f"cloud://{node}", node_uid=node) for node in nodes)
    answers = tuple(NodeAnswer(node, accepted=True, node_group="pool") for node in nodes)
    return e.SetAccepted(request, f"digest-{request}", planned, answers, drain_timeout_s=3600.0, epoch=3)


def history() -> Iterator[e.Event]:
    """Return deletions that succeed, fail, are cancelled or in progress, and scale-ups with and without nodes."""
    yield accepted("drained", "n1", drain=True)
    yield e.SetTainted("drained")
    yield e.DrainStarted("n1", PODS)
    yield e.PodsEvicted("n1", PODS)
    yield e.DrainProgressed("n1", 2)
    yield e.Drained("n1")
    yield e.DeleteBegun("n1")
    yield e.DeleteAccepted("n1")
    yield e.InstanceGone("n1")
    yield accepted("failed", "n2", drain=False)
    yield e.SetTainted("failed")
    yield e.NodeEmpty("n2")
    yield e.DeleteBegun("n2")
    yield e.DeletionFailed("n2", 5, "the cloud refuses", ("default/web-3",))
    yield e.RolledBack("n2")
    yield accepted("cancelled", "n3", drain=True)
    yield e.SetTainted("cancelled")
    yield e.DrainStarted("n3", ())
    yield e.CancelRequested("n3", "an operator")
    yield e.RolledBack("n3")
    yield accepted("vanished", "n7", drain=True)
    yield e.SetTainted("vanished")
    yield e.NodeGone("n7")
    yield accepted("not tainted", "n4", drain=True)
    yield e.SetFailed("not tainted", "n4", "the API server is away")
    yield e.InstancesAccepted("by the cloud", (e.PlannedNode("n5", "pool", drain=False, provider_id="cloud://n5"),))
    yield e.GrowthRequested("grow", "digest", (GroupGrowth("pool", 3, 5), GroupGrowth("other", 1, 2)), epoch=3)
    yield e.GrowthAnswered("grow", (GrowthAnswer("pool", True), GrowthAnswer("other", False, "no room", 2)))
    yield e.NodesAwaited("pool")
    yield e.GroupFailed("pool", "activity-1", "no capacity")
    yield e.NodesJoined("pool")
    yield e.GroupBackedOff("other", "activity-2", "no quota")
    yield e.GroupRecovered("other")
    yield e.GroupBackedOff("other", "activity-3", "no quota")
    yield e.RegistrationNoted((("pool", "cloud://lost"),), ("cloud://n6",))
    yield e.ClockJumped(-250)
    yield accepted("under way", "n6", drain=True)
    yield e.SetTainted("under way")
    yield e.DrainStarted("n6", PODS[:1])


def fill(journal: Journal) -> None:
    """Write the history."""
    for number, event in enumerate(history()):
        journal.handle(event, FIRST_MS + number * STEP_MS)
        journal.commit()


def main(directory: Path) -> None:
    """Write the store, and the actuator's resulting state."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / STORE).unlink(missing_ok=True)
    # Compacted midway: a snapshot and later events.
    journal = Journal(SqlStore(sqlite_url(directory / STORE)), compact_after=30)
    fill(journal)
    (directory / DATA).write_bytes(journal.tracker.dump() + b"\n")
    journal.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
