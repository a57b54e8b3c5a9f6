"""Recorded answers of the real Cluster Autoscaler to the demo's clusters; the file describes how they were made. A
recording identifies its input by a digest and is never shown for another one.
"""

import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import msgspec

from trimtab.clients.cli.demo.evidence import Object
from trimtab.common.rpc.collection import collection_paused

FILE = "cluster_autoscaler_answers.json"


@dataclass(frozen=True)
class RecordedAnswers:
    """Loops over one input, each with the node list in a different order; savings are per hour. `version` : of the
    Cluster Autoscaler; `runs` : loops; `first_count`, `first_saving` : nodes that the first of them removes, and what
    that saves; `best_count` : most nodes that one of them removes.
    """

    version: str
    runs: int
    first_count: int
    first_saving: float
    best_count: int


def recorded_answers(cluster: Path) -> RecordedAnswers | None:
    """Return the recording for a cluster, or None if there is none for exactly this input."""
    text = (resources.files("trimtab.clients.data.recordings") / FILE).read_bytes()
    document = msgspec.json.decode(text)
    found = document["answers"].get(digest(cluster.read_bytes()))
    if found is None:
        return None
    return RecordedAnswers(
        version=document["version"],
        runs=len(found["nodes"]),
        first_count=found["nodes"][0],
        first_saving=found["savingPerHour"][0],
        best_count=max(found["nodes"]),
    )


def digest(listed: bytes) -> str:
    """Return the digest of a `List`'s objects, independent of its white space."""
    with collection_paused():
        items: list[Object] = msgspec.json.decode(listed)["items"]
    return hashlib.sha256(msgspec.json.encode(items, order="sorted")).hexdigest()
