"""A redacted recording reveals neither names nor prices nor times, and every decision on it is unchanged."""

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import kubernetes as k8s
from tests.builders.examples import examples
from tests.builders.messages import write_snapshot
from tests.builders.random_clusters import changes, clusters
from tests.builders.snapshots import Cluster, write, write_delta
from trimtab.clients.cli.live.redaction import redact_file
from trimtab.clients.cli.live.redaction.numbers import FIRST_NOW_S, in_order
from trimtab.clients.cli.live.redaction.tokens import KEPT, KEPT_KEYS, tokens_of
from trimtab.clients.cli.live.replay import _comparable, compare
from trimtab.clients.cli.live.rounds_reader import Recorded, RoundsRecorder, read_rounds
from trimtab.clients.cli.planners import open_link
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.common.objects.files import read_files
from trimtab.common.recording import RecordingError, RecordingReader, RecordingWriter
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.planner.model.label_syntax import is_label_key, is_label_value
from trimtab.prices import MOST_PER_HOUR
from trimtab.v1 import plan_pb2, recording_pb2, snapshot_pb2

NOW_S = 1_790_000_000


def unasked() -> SnapshotUpdate:
    """Return an error, since every base is known in this process."""
    raise AssertionError("asked for the whole")


def recorded(
    path: Path,
    snapshots: list[SnapshotUpdate],
    settings: plan_pb2.PlanSettings,
    state: plan_pb2.PlanState | None = None,
    decisions: Sequence[plan_pb2.Decision.Code.ValueType] = (plan_pb2.Decision.SCALE_DOWN,),
) -> plan_pb2.PlanState | None:
    """Record rounds of the planner in this process, starting from a state; return the last one."""
    with open_link(None) as link, RoundsRecorder(path, "my-cluster", "a comment") as recorder:
        session = PlannerSession(link)
        session.resume(state)
        for number, update in enumerate(snapshots):
            request = plan_pb2.PlanRequest(
                request_id=f"host-{number}",
                cluster="my-cluster",
                decisions=decisions,
                now=Timestamp(seconds=1_790_000_000 + 700 * number),
                settings=settings,
            )
            answer, told = session.plan(request, update, unasked)
            recorder.add(told, request, answer)
    return session.state


def differences(path: Path) -> list[tuple[str, object, object]]:
    """Replay a recording in this process."""
    found: list[tuple[str, object, object]] = []
    with open_link(None) as link, path.open("rb") as opened:
        session = PlannerSession(link)
        for one in read_rounds(str(path), opened):
            assert isinstance(one, Recorded)
            answer = session.ask(one.request, one.update)
            found += compare(_comparable(one.answer, one.redacted), _comparable(answer, one.redacted))
    return found


def frames_of(path: Path) -> list[recording_pb2.RecordingFrame]:
    with path.open("rb") as opened:
        return list(RecordingReader(str(path), opened))


def answer_of(path: Path) -> plan_pb2.PlanResponse:
    """Return the last answer of a recording."""
    return frames_of(path)[-1].response


def redacted_of(
    folder: Path, rounds: list[SnapshotUpdate], wanted: plan_pb2.PlanSettings | None = None
) -> tuple[Path, Path]:
    """Record rounds and redact the recording; return both files."""
    plain, redacted = folder / "plain.trimtab", folder / "redacted.trimtab"
    recorded(plain, rounds, wanted or plan_pb2.PlanSettings())
    redact_file(plain, redacted)
    return plain, redacted


def a_cluster() -> snapshot_pb2.ClusterSnapshot:
    """Return a small cluster with budgets, groups, pinned pods and a removable node."""
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


def changed(snapshot: snapshot_pb2.ClusterSnapshot) -> list[SnapshotUpdate]:
    """Return the whole snapshot, then one without a pod, then one without changes."""
    delta = snapshot_pb2.SnapshotDelta(changed=snapshot_pb2.ClusterSnapshot(), deleted_pods=["default/web-1"])
    empty = snapshot_pb2.SnapshotDelta(changed=snapshot_pb2.ClusterSnapshot())
    return [SnapshotUpdate(snapshot, None), SnapshotUpdate(None, delta), SnapshotUpdate(None, empty, is_empty=True)]


@pytest.mark.parametrize("name", ["built", "openshift-aws", "gardener-gcp-g2"])
def test_decisions_over_a_redacted_recording_are_what_they_were(tmp_path: Path, name: str) -> None:
    if name == "built":
        rounds = changed(a_cluster())
    else:
        data = Path(str(files("clients") / "data" / "recordings" / f"{name}.json.gz"))
        rounds = [SnapshotUpdate(read_files([data]).snapshot, None)]
    wanted = plan_pb2.PlanSettings()
    wanted.node_groups["secret-group"].unneeded_time.seconds = 300
    plain, redacted = tmp_path / "plain.trimtab", tmp_path / "redacted.trimtab"
    recorded(plain, rounds, wanted)
    assert differences(plain) == []
    redact_file(plain, redacted)
    assert differences(redacted) == []


def with_prices(pending: int) -> snapshot_pb2.ClusterSnapshot:
    """Return a cluster of large nodes, hardly used, and of full small ones; with pods that need more large ones."""
    web = k8s.replica_set("web", 7 + pending)
    kinds = {"large": ("16", "32Gi", 0.7310), "small": ("4", "8Gi", 0.1170)}
    nodes, groups = [], []
    for name, (cpu, memory, price) in kinds.items():
        ours = [k8s.node(f"{name}-{i}", cpu, memory, labels={"pool": name}) for i in range(3)]
        groups.append(
            k8s.node_group(name, 0, 9, target=3, selector={"pool": name}, price=price, template=ours[0]),
        )
        nodes += ours
    stays = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    pods = [k8s.pod(f"moved-{i}", "2500m", node=f"large-{i % 3}", owner=web) for i in range(4)]
    pods += [k8s.pod(f"fixed-{i}", "3500m", node=f"small-{i}", owner=web, annotations=stays) for i in range(3)]
    pods += [k8s.pod(f"new-{i}", "9", owner=web, node_selector={"pool": "large"}) for i in range(pending)]
    snapshot: snapshot_pb2.ClusterSnapshot = k8s.snapshot_of(nodes, pods, web, *groups, k8s.namespace())
    return snapshot


@pytest.mark.parametrize("expander", [None, plan_pb2.Expander.PRICE])
@pytest.mark.parametrize("pending", [0, 6])
def test_plans_with_prices_are_what_they_were_and_all_prices_are_others(
    tmp_path: Path, pending: int, expander: plan_pb2.Expander.Code.ValueType | None
) -> None:
    wanted = plan_pb2.PlanSettings()
    if expander is not None:
        wanted.scale_up.expanders.append(expander)
    decisions = (plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.REPLACEMENT)
    plain, redacted = tmp_path / "plain.trimtab", tmp_path / "redacted.trimtab"
    recorded(plain, [SnapshotUpdate(with_prices(pending), None)], wanted, decisions=decisions)
    redact_file(plain, redacted)
    assert differences(redacted) == []
    before, after = answer_of(plain), answer_of(redacted)
    assert (len(before.scale_up.splits), len(before.replacement.waves)) == ((1, 0) if pending else (0, 1))
    factor = after.summary.now.price_per_hour / before.summary.now.price_per_hour
    assert factor != 1
    assert after.summary.bought_per_hour == factor * before.summary.bought_per_hour > 0
    for one, other in zip(before.scale_up.splits, after.scale_up.splits, strict=True):
        assert other.price_per_hour == factor * one.price_per_hour
    for one, other in zip(before.replacement.waves, after.replacement.waves, strict=True):
        assert other.saving_per_hour == factor * one.saving_per_hour


def test_prices_that_the_planner_assumes_stay(tmp_path: Path) -> None:
    plain, redacted = redacted_of(tmp_path, [SnapshotUpdate(a_cluster(), None)])
    before, after = answer_of(plain).summary, answer_of(redacted).summary
    assert before.assumption
    assert before == after


def test_the_highest_price_stays_a_price(tmp_path: Path) -> None:
    group = k8s.node_group("g", 0, 9, nodes=["n1"], price=MOST_PER_HOUR)
    snapshot = k8s.snapshot_of([k8s.node("n1")], [], group, k8s.namespace())
    plain, redacted = tmp_path / "plain.trimtab", tmp_path / "redacted.trimtab"
    recorded(plain, [SnapshotUpdate(snapshot, None)], plan_pb2.PlanSettings())
    for _ in range(8):
        redact_file(plain, redacted)
        assert 0 < answer_of(redacted).summary.now.price_per_hour < MOST_PER_HOUR
    assert differences(redacted) == []


def test_requirements_on_custom_labels_hold_without_their_names(tmp_path: Path) -> None:
    web = k8s.replica_set("web", 2)
    nodes = [
        k8s.node(name, labels={"secret.example/pool": pool}) for name, pool in (("n1", "x"), ("n2", "y"), ("n3", "x"))
    ]
    affinity = k8s.node_affinity([("secret.example/pool", "In", ["x"])])
    group = k8s.node_group("g", 0, 9, nodes=["n1", "n2"])
    snapshot = k8s.snapshot_of(nodes, k8s.pods_of(web, 2, node="n1", affinity=affinity), web, group, k8s.namespace())
    _, redacted = redacted_of(tmp_path, [SnapshotUpdate(snapshot, None)])
    answer = answer_of(redacted)
    assert [node.assumption.pods_to_move_count for node in answer.scale_down.unneeded].count(2) == 1, (
        "its pods fit a like node"
    )
    assert differences(redacted) == []


def test_a_state_from_before_the_recording_stays_in_it_without_names(tmp_path: Path) -> None:
    plain, redacted = tmp_path / "plain.trimtab", tmp_path / "redacted.trimtab"
    first = changed(a_cluster())[:1]
    state = recorded(plain, first, plan_pb2.PlanSettings())
    assert state is not None
    assert state.scale_down.unneeded.node
    state.scale_down.unneeded.time_ns = (1_780_000_000 * 10**9).to_bytes(8, "little") * (
        len(state.scale_down.unneeded.node) // 4
    )
    state.scale_down.ClearField("opaque")
    recorded(plain, changed(a_cluster()), plan_pb2.PlanSettings(), state)
    redact_file(plain, redacted)
    frames = frames_of(redacted)
    (time_ns,) = set(np.frombuffer(frames[1].request.state.scale_down.unneeded.time_ns, "<i8").tolist())
    assert frames[1].request.now.ToNanoseconds() - time_ns == (1_790_000_000 - 1_780_000_000) * 10**9
    assert not any(b"node-a" in frame.SerializeToString() for frame in frames)
    assert differences(redacted) == []


def test_a_redacted_recording_tells_no_name(tmp_path: Path) -> None:
    _, redacted = redacted_of(tmp_path, changed(a_cluster()))
    whole = b""
    with redacted.open("rb") as opened:
        reader = RecordingReader(str(redacted), opened)
        header = reader.header
        assert (header.redacted, header.cluster, header.comment, header.producer) == (True, "", "", "")
        for frame in reader:
            whole += frame.SerializeToString()
    for word in (b"secret", b"node-a", b"web", b"single", b"agent", b"zone-", b"team", b"my-cluster", b"host-"):
        assert word not in whole, word
    assert b"kube-system" in whole


WORDS = st.text(st.sampled_from("-._/09AZaz"), max_size=5)


def test_redacted_nodes_have_readable_names_in_their_order(tmp_path: Path) -> None:
    _, redacted = redacted_of(tmp_path, [SnapshotUpdate(a_cluster(), None)])
    frames = frames_of(redacted)
    (snapshot,) = [frame.snapshot for frame in frames if frame.HasField("snapshot")]
    assert [node.name for node in snapshot.nodes] == ["node-1", "node-2", "node-3", "node-4"]
    (answer,) = [frame.response for frame in frames if frame.HasField("response")]
    assert {one.node for one in answer.scale_down.unneeded} <= {node.name for node in snapshot.nodes}


@given(st.sets(WORDS, min_size=1), st.sets(WORDS))
def test_tokens_of_nodes_keep_their_order_and_differ_from_all_others(nodes: set[str], others: set[str]) -> None:
    tokens = tokens_of(nodes | others, None, nodes)
    ordered = [tokens[name] for name in sorted(nodes, key=str.encode) if "/" not in name]
    assert sorted(ordered, key=str.encode) == ordered
    assert len(set(tokens.values())) == len(tokens)
    for name in nodes:
        if "/" not in name:
            assert is_label_value(tokens[name]) == is_label_value(name)


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


@given(st.sets(st.from_regex(r"[-+]?[0-9]{1,4}|[0-9]{1,18}", fullmatch=True), max_size=40))
def test_integers_that_are_compared_become_others_in_the_same_order(texts: set[str]) -> None:
    tokens = in_order(texts)
    assert len(set(tokens.values())) == len(texts)
    for text, token in tokens.items():
        assert len(token) == len(text)
        for other, its in tokens.items():
            assert (int(text) < int(other), text < other) == (int(token) < int(its), token < its)
    both = tokens_of({*texts, "a", "7x", "12-3"}, tokens)
    names = sorted(text for text in both if text[:1] not in "-+")
    assert [both[name] for name in names] == sorted(both[name] for name in names)


def test_an_integer_alone_keeps_nothing_but_its_length() -> None:
    assert in_order({"123456789012", "-42", "007", "0"}) == {
        "123456789012": "100000000000",
        "-42": "-20",
        "007": "003",
        "0": "0",
    }


def test_times_are_moved_together(tmp_path: Path) -> None:
    def at(age_s: int) -> str:
        return datetime.fromtimestamp(NOW_S - age_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    pods = [k8s.pod(f"p{age}", created=at(age)) for age in (60, 7200, 100_000)]
    nodes = [k8s.node(f"n{age}", created=at(age)) for age in (300_000, 100)]
    plain, redacted = tmp_path / "plain.trimtab", tmp_path / "redacted.trimtab"
    with RoundsRecorder(plain) as recorder:
        request = plan_pb2.PlanRequest(now=Timestamp(seconds=NOW_S))
        recorder.add(SnapshotUpdate(k8s.snapshot_of(nodes, pods), None), request, plan_pb2.PlanResponse())
    redact_file(plain, redacted)
    with redacted.open("rb") as opened:
        snapshot, asked, _ = RecordingReader(str(redacted), opened)
    assert asked.request.now.seconds == FIRST_NOW_S
    created = np.frombuffer(snapshot.snapshot.pods.created, "<i8")
    assert sorted(FIRST_NOW_S - created) == [60, 7200, 100_000]
    assert sorted(FIRST_NOW_S - one.create_time.seconds for one in snapshot.snapshot.nodes) == [100, 300_000]


def test_fields_that_this_build_does_not_know_are_left_out(tmp_path: Path) -> None:
    snapshot = a_cluster()
    unknown = b"\xfa\x3f\x06secret"  # field 1023, six bytes
    pod_spec = snapshot.pod_specs[0]
    pod_spec.MergeFromString(unknown)
    snapshot.MergeFromString(unknown)
    plain, redacted = tmp_path / "plain.trimtab", tmp_path / "redacted.trimtab"
    write_snapshot(plain, snapshot)
    redact_file(plain, redacted)
    with redacted.open("rb") as opened:
        (frame,) = RecordingReader(str(redacted), opened)
    assert b"secret" not in frame.SerializeToString()


def test_integers_of_labels_are_hidden_where_a_selector_compares_them_too(tmp_path: Path) -> None:
    web = k8s.replica_set("web", 2)
    nodes = [
        k8s.node(f"n{generation}", labels={"account": "123456789012", "generation": str(generation)})
        for generation in (7_654_321, 7_654_322, 7_654_329)
    ]
    affinity = k8s.node_affinity([("generation", "Gt", ["7654321"])])
    group = k8s.node_group("g", 0, 9, nodes=[one["metadata"]["name"] for one in nodes[:2]])
    pods = k8s.pods_of(web, 2, node="n7654322", affinity=affinity)
    snapshot = k8s.snapshot_of(nodes, pods, web, group, k8s.namespace())
    _, redacted = redacted_of(tmp_path, [SnapshotUpdate(snapshot, None)])
    frames = frames_of(redacted)
    whole = b"".join(frame.SerializeToString() for frame in frames)
    for secret in (b"123456789012", b"7654321", b"7654322", b"7654329"):
        assert secret not in whole
    moved = [node for node in frames[-1].response.scale_down.unneeded if node.assumption.pods_to_move_count]
    assert len(moved) == 1, "the pods of the node in the middle fit on the one with the greatest label"
    assert differences(redacted) == []


SECRETS = st.lists(
    st.from_regex(r"zq[a-z0-9]{3,9}|zq[a-z]{3}/zq[a-z]{4}|[2-9][1-9]{8,12}", fullmatch=True),
    min_size=12, max_size=12, unique=True,
)  # fmt: skip


@examples(15, 8)
@given(SECRETS)
def test_no_string_of_a_cluster_is_in_its_redacted_recording(
    tmp_path_factory: pytest.TempPathFactory, secrets: list[str]
) -> None:
    name = [secret.replace("/", "-") for secret in secrets]
    web = k8s.replica_set(name[0], 1)
    node = k8s.node(name[1], labels={name[2]: name[3], f"{name[4]}.zq/x": "1"})
    affinity = k8s.node_affinity([(name[2], "Gt", [name[3]]), (name[5], "NotIn", [name[6]])])
    pods = k8s.pods_of(web, 1, node=name[1], affinity=affinity, labels={name[7]: name[8]})
    snapshot = k8s.snapshot_of([node], pods, web, k8s.node_group(name[9], 0, 9, nodes=[name[1]]))
    snapshot.nodes[0].provider_id = secrets[10]
    nodes = plan_pb2.Selector(match_labels={name[11]: name[3]})
    limit = plan_pb2.ResourceLimit(resource="memory", minimum=1, nodes=nodes)
    wanted = plan_pb2.PlanSettings(planner=plan_pb2.PlannerSettings(limits=[limit]))
    folder = tmp_path_factory.mktemp("secrets")
    _, redacted = redacted_of(folder, [SnapshotUpdate(snapshot, None)], wanted)
    assert differences(redacted) == []
    frames = frames_of(redacted)
    text = "\n".join(str(frame) for frame in frames) + "".join(str(frame.snapshot.pods.names) for frame in frames)
    for secret in (*secrets, *(part for one in secrets for part in one.split("/"))):
        assert secret not in text, secret


@examples(20, 10)
@given(clusters(), st.data())
def test_decisions_over_random_clusters_are_what_they_were(
    tmp_path_factory: pytest.TempPathFactory, cluster: Cluster, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("redacted")
    after = data.draw(changes(cluster))
    rounds = [SnapshotUpdate(write(cluster), None), SnapshotUpdate(None, write_delta(cluster, after))]
    assert differences(redacted_of(folder, rounds)[1]) == []


def test_a_recording_whose_indices_lead_nowhere_is_refused_and_leaves_no_copy(tmp_path: Path) -> None:
    damaged = write(Cluster(), in_order=True)
    damaged.label_sets.offsets = np.array([0, 0, 1], "<i4").tobytes()
    damaged.label_sets.keys = damaged.label_sets.values = np.array([99], "<i4").tobytes()
    with RecordingWriter(tmp_path / "a", recording_pb2.RecordingHeader()) as writer:
        writer.write(damaged)
    with pytest.raises(RecordingError, match="damaged"):
        redact_file(tmp_path / "a", tmp_path / "b")
    assert not (tmp_path / "b").exists()
