"""A redacted recording tells no name, and every decision over it is what it was."""

import re
from importlib.resources import files
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trimtab.v1 import plan_pb2, recording_pb2, snapshot_pb2

from clients.cli.live.links import open_link
from clients.cli.live.redaction import KEPT, KEPT_KEYS, redact_file, tokens_of
from clients.cli.live.replay import _comparable, compare, read_rounds
from clients.cli.live.rounds_recorder import RoundsRecorder
from clients.kubernetes_objects.files import read_files
from clients.live_cluster.snapshots import Taken
from clients.recording import RecordingReader, RecordingWriter, write_snapshot
from clients.reference_loop.planner_session import PlannerSession
from planner.classes.node_requirements import is_label_key, is_label_value
from tests.builders import kubernetes as k8s
from tests.builders.random_clusters import changes, clusters
from tests.builders.snapshots import Cluster, write, write_delta


def unasked() -> Taken:
    """Every base is known in this process: nobody asks for the whole."""
    raise AssertionError("asked for the whole")


def recorded(
    path: Path, snapshots: list[Taken], settings: plan_pb2.PlanSettings, state: plan_pb2.PlanState | None = None
) -> plan_pb2.PlanState | None:
    """Record rounds of the planner in this process, from a state on; return the last one."""
    with open_link(None) as link, RoundsRecorder(path, "my-cluster", "a comment") as recorder:
        session = PlannerSession(link)
        session.resume(state)
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
    return session.state


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
    wanted = plan_pb2.PlanSettings()
    wanted.node_groups["secret-group"].unneeded_time.seconds = 300
    plain, redacted = tmp_path / "plain.trimtab", tmp_path / "redacted.trimtab"
    recorded(plain, rounds, wanted)
    assert differences(plain) == []
    redact_file(plain, redacted)
    assert differences(redacted) == []


def test_requirements_on_labels_of_ones_own_hold_without_their_names(tmp_path: Path) -> None:
    web = k8s.replica_set("web", 2)
    nodes = [
        k8s.node(name, labels={"secret.example/pool": pool}) for name, pool in (("n1", "x"), ("n2", "y"), ("n3", "x"))
    ]
    affinity = k8s.node_affinity([("secret.example/pool", "In", ["x"])])
    group = k8s.node_group("g", 0, 9, nodes=["n1", "n2"])
    snapshot = k8s.snapshot_of(nodes, k8s.pods_of(web, 2, node="n1", affinity=affinity), web, group, k8s.namespace())
    plain, redacted = tmp_path / "plain.trimtab", tmp_path / "redacted.trimtab"
    recorded(plain, [Taken(snapshot, None)], plan_pb2.PlanSettings())
    redact_file(plain, redacted)
    with redacted.open("rb") as opened:
        answer = list(RecordingReader(str(redacted), opened))[-1].response
    assert [len(node.destinations) for node in answer.scale_down.unneeded].count(2) == 1, "its pods fit a like node"
    assert differences(redacted) == []


def test_a_state_from_before_the_recording_stays_in_it_without_names(tmp_path: Path) -> None:
    plain, redacted = tmp_path / "plain.trimtab", tmp_path / "redacted.trimtab"
    first = changed(a_cluster())[:1]
    state = recorded(plain, first, plan_pb2.PlanSettings())
    assert state is not None
    assert state.unneeded.node
    state.unneeded.time_ns = (1_780_000_000 * 10**9).to_bytes(8, "little") * (len(state.unneeded.node) // 4)
    state.ClearField("hints")
    recorded(plain, changed(a_cluster()), plan_pb2.PlanSettings(), state)
    redact_file(plain, redacted)
    with redacted.open("rb") as opened:
        frames = list(RecordingReader(str(redacted), opened))
    assert frames[1].request.state.unneeded.time_ns == state.unneeded.time_ns
    assert not any(b"node-a" in frame.SerializeToString() for frame in frames)
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


WORDS = st.text(st.sampled_from("-._/09AZaz"), max_size=5)


@given(st.sets(st.text(st.characters(codec="utf-8"), max_size=6) | WORDS))
def test_tokens_keep_the_order_and_tell_strings_apart(strings: set[str]) -> None:
    strings |= {"kube-system", "topology.kubernetes.io/zone", "7", "default", "default-scheduler", "0.0.0.0", "TCP", ""}
    tokens = tokens_of(strings)
    ordered = [tokens[text] for text in sorted(strings, key=str.encode) if "/" not in text]
    assert sorted(ordered, key=str.encode) == ordered
    assert len(set(tokens.values())) == len(tokens)
    for text, token in tokens.items():
        assert (token == text) == (text in KEPT | KEPT_KEYS)
        assert ("/" in token) == ("/" in text)
        if "/" not in text:
            assert is_label_value(token) == is_label_value(text)
            assert is_label_key(f"{token}/a") == is_label_key(f"{text}/a")


NO_NAMES = {
    "PodSpec.unsupported": "field names of Kubernetes",
    "Owner.kind": "a kind of Kubernetes",
    "Owner.api_version": "a version of Kubernetes",
    "PodDisruptionBudget.min_available": "a number or percentage",
    "PodDisruptionBudget.max_unavailable": "a number or percentage",
    "ScaleUpSettings.expanders": "a word of ours",
    "PodCostTarget.owner_kinds": "a kind of Kubernetes",
    "PodCostStrategy.strategy": "a word of ours",
    "SlackSettings.granularity": "a word of ours",
    "SlackSettings.strategy": "a word of ours",
    "Placeholder.kind": "a word of ours",
    "StageTime.stage": "a word of ours",
    "UnremovableNode.failed_predicates": "words of ours",
    "PlanRequest.base_version": "a digest",
    "PlanRequest.state_version": "a digest",
    "PlanResponse.snapshot_version": "a digest",
    "PlanResponse.state_version": "a digest",
    "NodeAssumption.pods_to_move_digest": "a digest, made anew",
}
"""Fields that hold no name of a cluster; every other string of the contract must be replaced."""


class Filler:
    """Fills every field of every message, so that no string of the contract is forgotten, new ones included."""

    def __init__(self) -> None:
        self.count = 0

    def name(self) -> str:
        """A string that stands for a name, of one of the forms that names have."""
        self.count += 1
        forms = (
            "zq{}",
            "zq{}.zq.example/zq{}",
            "zq{}__zq",
            "node-role.kubernetes.io/zq{}",
            "zq/zq{}/zq",
            "zq{}zq.k8s.io/x",
        )
        return forms[self.count % len(forms)].format(self.count, self.count)

    def fill(self, message: Message, depth: int = 0) -> Message:
        """Fill a message in place, down to some depth."""
        for field in message.DESCRIPTOR.fields:
            if field.containing_oneof is None or message.WhichOneof(field.containing_oneof.name) is None:
                self._fill_field(message, field, depth)
        if isinstance(message, snapshot_pb2.PodTable):
            message.count = 1
            for data, lengths in (("names", "name_lengths"), ("uids", "uid_lengths")):
                text = self.name().replace("/", "-").encode()
                setattr(message, data, text)
                setattr(message, lengths, len(text).to_bytes(4, "little"))
            message.namespace = (1).to_bytes(4, "little")
        return message

    def _fill_field(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        value = getattr(message, field.name)
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            entry = inner.fields_by_name["value"]
            if f"{message.DESCRIPTOR.name}.{field.name}" in NO_NAMES:
                return
            if entry.message_type is not None:
                self.fill(value[self.name()], depth + 1)
            else:
                value[self.name()] = self._value(field) if entry.type == FieldDescriptor.TYPE_STRING else 1
        elif inner is not None and depth < 7:
            self.fill(value.add() if field.is_repeated else value, depth + 1)
        elif field.type == FieldDescriptor.TYPE_STRING:
            if f"{message.DESCRIPTOR.name}.{field.name}" in NO_NAMES:
                return
            if field.is_repeated:
                value.extend([self.name(), self.name()])
            else:
                setattr(message, field.name, self.name())

    def _value(self, field: FieldDescriptor) -> str:
        """The value in a map from names to strings."""
        return "RESOURCES" if field.name == "reasons" else self.name()


def filled_contents() -> list[Message]:
    """One of each thing that a recording may hold, filled."""
    filler = Filler()
    kinds = (
        snapshot_pb2.ClusterSnapshot, snapshot_pb2.SnapshotDelta, plan_pb2.PlanRequest, plan_pb2.PlanResponse,
        plan_pb2.PlanSettings, plan_pb2.PlanState,
    )  # fmt: skip
    return [filler.fill(kind()) for kind in kinds]


def test_no_string_of_the_contract_is_forgotten(tmp_path: Path) -> None:
    contents = filled_contents()
    strings = {text for message in contents for text in texts(message) if "zq" in text}
    assert len(strings) > 100
    plain, redacted = tmp_path / "plain.trimtab", tmp_path / "redacted.trimtab"
    with RecordingWriter(plain, recording_pb2.RecordingHeader(cluster="zq", comment="zq")) as writer:
        for message in contents:
            writer.write(message)  # type: ignore[arg-type]
    redact_file(plain, redacted)
    with redacted.open("rb") as opened:
        reader = RecordingReader(str(redacted), opened)
        assert b"zq" not in reader.header.SerializeToString()
        frames = [frame for frame in reader]
    assert len(frames) == len(contents)
    for frame in frames:
        data = frame.SerializeToString()
        assert b"zq" not in data, re.findall(rb"[ -~]{0,20}zq[ -~]{0,20}", data)


def test_integers_stay_where_a_selector_compares_them_and_nowhere_else(tmp_path: Path) -> None:
    def redacted_strings(name: str, **pod_arguments: object) -> list[str]:
        node = k8s.node("n1", labels={"account": "123456789012", "generation": "7"})
        snapshot = k8s.snapshot_of([node], [k8s.pod("p", **pod_arguments)])  # type: ignore[arg-type]
        plain, redacted = tmp_path / f"{name}.trimtab", tmp_path / f"{name}.redacted.trimtab"
        write_snapshot(plain, snapshot)
        redact_file(plain, redacted)
        with redacted.open("rb") as opened:
            (frame,) = RecordingReader(str(redacted), opened)
        return list(frame.snapshot.strings)

    assert not {"123456789012", "7"} & set(redacted_strings("equal"))
    compared = redacted_strings("compared", affinity=k8s.node_affinity([("generation", "Gt", ["5"])]))
    assert {"7", "5"} <= set(compared)
    assert "generation" not in compared


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(clusters(), st.data())
def test_decisions_over_random_clusters_are_what_they_were(
    tmp_path_factory: pytest.TempPathFactory, cluster: Cluster, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("redacted")
    after = data.draw(changes(cluster))
    rounds = [Taken(write(cluster), None), Taken(None, write_delta(cluster, after))]
    recorded(folder / "plain.trimtab", rounds, plan_pb2.PlanSettings())
    redact_file(folder / "plain.trimtab", folder / "redacted.trimtab")
    assert differences(folder / "redacted.trimtab") == []
