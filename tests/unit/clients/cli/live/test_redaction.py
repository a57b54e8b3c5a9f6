"""A redacted recording tells no name, and every decision over it is what it was."""

import re
from importlib.resources import files
from pathlib import Path

import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st
from trimtab.v1 import plan_pb2, snapshot_pb2

from clients.cli.live.links import open_link
from clients.cli.live.redaction import KEPT, redact_file, tokens_of
from clients.cli.live.replay import _comparable, compare, read_rounds
from clients.cli.live.rounds_recorder import RoundsRecorder
from clients.kubernetes_objects.files import read_files
from clients.live_cluster.snapshots import Taken
from clients.recording import RecordingReader
from clients.reference_loop.planner_session import PlannerSession
from tests.builders import kubernetes as k8s

SAFE = re.compile(r"(?:[a-z0-9.-]+\.)?(?:kubernetes|k8s)\.io/.*|-?[0-9]+")


def unasked() -> Taken:
    """Every base is known in this process: nobody asks for the whole."""
    raise AssertionError("asked for the whole")


def recorded(path: Path, snapshots: list[Taken], settings: plan_pb2.PlanSettings) -> None:
    """Record rounds of the planner in this process."""
    with open_link(None) as link, RoundsRecorder(path, "my-cluster", "a comment") as recorder:
        session = PlannerSession(link)
        for number, taken in enumerate(snapshots):
            request = plan_pb2.PlanRequest(
                request_id=f"host-{number}",
                cluster="my-cluster",
                decisions=[plan_pb2.Decision.SCALE_DOWN],
                now=Timestamp(seconds=1_790_000_000 + 700 * number),
                settings=settings,
            )
            answer, told = session.plan(request, taken, unasked)
            recorder.add(told, request, answer)


def differences(path: Path) -> list[tuple[str, object, object]]:
    """Replay a recording in this process."""
    found = []
    with open_link(None) as link, path.open("rb") as opened:
        session = PlannerSession(link)
        for one in read_rounds(str(path), opened):
            answer = session.ask(one.request, one.taken)
            found += compare(_comparable(one.answer, one.redacted), _comparable(answer, one.redacted))
    return found


def texts(message: Message) -> set[str]:
    """Every string in a message."""
    found: set[str] = set()
    for field, value in message.ListFields():
        for one in (value.keys() if hasattr(value, "keys") else value) if field.is_repeated else (value,):
            if isinstance(one, str):
                found.add(one)
            elif isinstance(one, Message):
                found |= texts(one)
    return found


def a_cluster() -> snapshot_pb2.ClusterSnapshot:
    """A small cluster with budgets, groups, pinned pods and a node that goes."""
    web, agent = k8s.replica_set("web", 4), k8s.daemon_set("agent")
    nodes = [k8s.node(f"node-{name}", zone=f"zone-{name}", labels={"team": "secret"}) for name in "abcd"]
    pods = k8s.pods_of(web, 2, node="node-a") + [k8s.pod(f"single-{i}", node="node-b", owner=web) for i in range(2)]
    pods += [
        k8s.pod(f"agent-{one['metadata']['name']}", namespace="kube-system", node=one["metadata"]["name"], owner=agent)
        for one in nodes
    ]
    group = k8s.node_group("secret-group", 0, 9, selector={"team": "secret"})
    snapshot: snapshot_pb2.ClusterSnapshot = k8s.snapshot_of(
        nodes, pods, web, agent, k8s.pdb("secret-budget"), group, k8s.namespace("default")
    )
    return snapshot


def changed(snapshot: snapshot_pb2.ClusterSnapshot) -> list[Taken]:
    """The whole, then a pod gone, then nothing."""
    delta = snapshot_pb2.SnapshotDelta(changed=snapshot_pb2.ClusterSnapshot(), deleted_pods=["default/web-1"])
    empty = snapshot_pb2.SnapshotDelta(changed=snapshot_pb2.ClusterSnapshot())
    return [Taken(snapshot, None), Taken(None, delta), Taken(None, empty, is_empty=True)]


@pytest.mark.parametrize("name", ["built", "openshift-aws", "gardener-gcp-g2"])
def test_decisions_over_a_redacted_recording_are_what_they_were(tmp_path: Path, name: str) -> None:
    if name == "built":
        rounds = changed(a_cluster())
    else:
        data = Path(str(files("clients") / "data" / "recordings" / f"{name}.json.gz"))
        rounds = [Taken(read_files([data]).snapshot, None)]
    settings = plan_pb2.PlanSettings()
    settings.node_groups["secret-group"].unneeded_time.seconds = 300
    plain, redacted = tmp_path / "plain.trimtab", tmp_path / "redacted.trimtab"
    recorded(plain, rounds, settings)
    assert differences(plain) == []
    redact_file(plain, redacted)
    assert differences(redacted) == []


def test_a_redacted_recording_tells_no_name(tmp_path: Path) -> None:
    plain, redacted = tmp_path / "plain.trimtab", tmp_path / "redacted.trimtab"
    recorded(plain, changed(a_cluster()), plan_pb2.PlanSettings())
    redact_file(plain, redacted)
    whole = b""
    with redacted.open("rb") as opened:
        reader = RecordingReader(str(redacted), opened)
        assert (reader.header.redacted, reader.header.cluster, reader.header.comment) == (True, "", "")
        for frame in reader:
            whole += frame.SerializeToString()
    for word in (b"secret", b"node-a", b"web", b"single", b"agent", b"zone-", b"team", b"my-cluster", b"host-"):
        assert word not in whole, word
    assert b"kube-system" in whole


@given(st.sets(st.text(st.characters(codec="utf-8", exclude_characters="!"), max_size=6)))
def test_tokens_keep_the_order_and_tell_strings_apart(strings: set[str]) -> None:
    strings |= {"kube-system", "topology.kubernetes.io/zone", "7", ""}
    tokens = tokens_of(strings)
    ordered = [tokens[text] for text in sorted(strings, key=str.encode) if "/" not in text]
    assert sorted(ordered, key=str.encode) == ordered
    assert len(set(tokens.values())) == len(tokens)
    for text, token in tokens.items():
        assert (token == text) == (text in KEPT or SAFE.fullmatch(text) is not None)
        assert ("/" in token) == ("/" in text)
