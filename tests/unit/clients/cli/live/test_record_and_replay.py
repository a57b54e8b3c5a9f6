"""`trimtab record` and `trimtab replay` on a small cluster behind a fake API server. Choices among an autoscaler's
options are recorded and replayed, too.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import karpenter as kp
from tests.builders import kubernetes as k8s
from tests.builders.api_server import FakeApiServer
from tests.builders.kubernetes_protobuf import encoded
from tests.builders.live_snapshots import put
from trimtab.clients.cli.command_options import RecordOptions, ReplayOptions
from trimtab.clients.cli.failures import FailedError, UsageError
from trimtab.clients.cli.live.record import record
from trimtab.clients.cli.live.replay import compare, replay
from trimtab.clients.cli.live.sources import ClusterSource
from trimtab.clients.cli.options import Output
from trimtab.common.kubernetes.registry import BY_KIND, WATCHED
from trimtab.common.objects import read_files
from trimtab.common.recording import RecordingReader, RecordingWriter
from trimtab.planner.scale_up.option_choice import choose_option
from trimtab.v1 import option_choice_pb2 as pb
from trimtab.v1.plan_pb2 import Expander


def asked(file: Path, source: ClusterSource, **more: Any) -> RecordOptions:
    """Return options of a recording."""
    return RecordOptions(
        file=file, kubeconfig=source.kubeconfig, node_groups=list(source.node_groups), interval_s=0.01, **more
    )


def source_of(server: FakeApiServer, folder: Path, groups: tuple[Path, ...] = ()) -> ClusterSource:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        f"clusters: [{{name: c, cluster: {{server: '{server.url}'}}}}]\n"
        "users: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )
    return ClusterSource(kubeconfig, "", groups, None, "small")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterSource]:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    web = k8s.replica_set("web", 2)
    objects = [k8s.node("n1", labels={"pool": "a"}), k8s.node("n2", labels={"pool": "a"}), web, k8s.namespace()]
    groups = tmp_path / "groups.json"
    groups.write_text(json.dumps(k8s.node_group("a", selector={"pool": "a"})))
    with FakeApiServer() as server:
        for one in [*objects, *k8s.pods_of(web, 2, node="n1")]:
            server.put(WATCHED[one["kind"]].path, encoded(one))
        yield source_of(server, tmp_path, (groups,))


def test_the_groups_of_node_pools_are_recorded_with_the_offers_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    offers, file = tmp_path / "offers.csv", tmp_path / "cluster.trimtab"
    offers.write_text(kp.CATALOG)
    with FakeApiServer() as server:
        put(server, kp.pool_node("n1"), k8s.namespace("default"))
        for kind in (BY_KIND["NodePool"], BY_KIND["NodeClaim"]):
            server.define(kind.path, kind.kind)
        server.put_json(BY_KIND["NodePool"].path, kp.node_pool())
        record(asked(file, source_of(server, tmp_path), offers=offers))
    groups = read_files([file]).snapshot.node_groups
    assert {group.id: group.price_per_hour for group in groups}["default/m5.xlarge/z1/on-demand"] == 0.214


def test_a_file_of_offers_that_cannot_be_read_stops_a_recording_before_it_begins(
    source: ClusterSource, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.trimtab"
    with pytest.raises(UsageError, match=r"none\.csv"):
        record(asked(file, source, offers=tmp_path / "none.csv"))
    assert not file.exists()


@pytest.mark.parametrize("redact", [False, True], ids=["plain", "redacted"])
def test_what_is_recorded_replays_without_difference(
    source: ClusterSource, tmp_path: Path, capsys: pytest.CaptureFixture[str], redact: bool
) -> None:
    file = tmp_path / "cluster.trimtab"
    record(asked(file, source, rounds=3, redact=redact))
    assert sorted(path.name for path in tmp_path.glob(".*")) == []
    with file.open("rb") as opened:
        frames = [frame.WhichOneof("frame") for frame in RecordingReader(str(file), opened)]
    assert frames == ["snapshot", "request", "response", "delta", "request", "response", "delta", "request", "response"]
    capsys.readouterr()
    replay(ReplayOptions(files=(file,), output=Output("json")))
    assert json.loads(capsys.readouterr().out) == {"rounds": 3, "differences": []}


def test_every_difference_is_shown_with_its_place(
    source: ClusterSource, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = tmp_path / "cluster.trimtab", tmp_path / "other.trimtab"
    record(asked(file, source, decision=["scale-down"], redact=False))
    with file.open("rb") as opened, RecordingWriter(other) as writer:
        for frame in RecordingReader(str(file), opened):
            content = getattr(frame, str(frame.WhichOneof("frame")))
            if frame.WhichOneof("frame") == "response":
                content.nodes.add(node="ghost")
                content.scale_down.evaluated += 1
            writer.write(content)
    capsys.readouterr()
    with pytest.raises(FailedError, match="2 differences in 1 rounds"):
        replay(ReplayOptions(files=(other,), output=Output("json")))
    shown = json.loads(capsys.readouterr().out)["differences"]
    assert {one["path"] for one in shown} == {"scaleDown.evaluated", "nodes.ghost"}


def test_what_cannot_be_replayed_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        replay(ReplayOptions(files=(tmp_path / "none",), output=Output("table")))
    text = tmp_path / "text"
    text.write_text("hello")
    with pytest.raises(UsageError, match="not a recording"):
        replay(ReplayOptions(files=(text,), output=Output("table")))
    empty = tmp_path / "empty.trimtab"
    with RecordingWriter(empty):
        pass
    with pytest.raises(UsageError, match="no round"):
        replay(ReplayOptions(files=(empty,), output=Output("table")))


def test_a_file_that_cannot_be_written_is_said_before_the_cluster_is_asked(tmp_path: Path) -> None:
    made = asked(tmp_path / "no" / "folder", ClusterSource(tmp_path / "none"))
    with pytest.raises(UsageError, match="the directory of this file does not exist"):
        record(made)


def test_objects_that_are_not_node_groups_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "objects.json"
    file.write_text(json.dumps(k8s.listed(k8s.node(), k8s.node_group())))
    with pytest.raises(UsageError, match="Node is not a NodeGroup"):
        ClusterSource(node_groups=(file,)).groups()


@pytest.mark.parametrize(
    ("recorded", "replayed", "expected"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="equal"),
        pytest.param({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, [("a.b[1]", 2, 3)], id="a value deep inside"),
        pytest.param({"a": 1}, {}, [("a", 1, "—")], id="something is gone"),
        pytest.param({"a": [1]}, {"a": [1, 2]}, [("a", [1], [1, 2])], id="lists of different length"),
    ],
)
def test_documents_are_compared_value_by_value(recorded: object, replayed: object, expected: list[object]) -> None:
    assert list(compare(recorded, replayed)) == expected


@pytest.mark.parametrize(
    ("end", "words"),
    [
        pytest.param(0.0, "not a recording", id="empty"),
        pytest.param(0.02, "cut off before its first frame", id="within the header"),
        pytest.param(0.6, "cut off", id="within a frame"),
    ],
)
def test_a_recording_that_is_cut_off_says_so(source: ClusterSource, tmp_path: Path, end: float, words: str) -> None:
    file = tmp_path / "cluster.trimtab"
    record(asked(file, source, rounds=2, redact=False))
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * end)])
    with pytest.raises(UsageError, match=words):
        replay(ReplayOptions(files=(file,), output=Output("table")))


@pytest.mark.parametrize("redact", [False, True], ids=["plain", "redacted"])
def test_after_a_stop_it_keeps_the_recorded_rounds_and_nothing_else(
    source: ClusterSource, tmp_path: Path, capsys: pytest.CaptureFixture[str], redact: bool
) -> None:
    file = tmp_path / "cluster.trimtab"
    under_way = tmp_path / ".cluster.trimtab.not-redacted" if redact else file

    def stop() -> None:
        while not (under_way.exists() and under_way.stat().st_size > 2000):
            time.sleep(0.01)
        mode.append(under_way.stat().st_mode & 0o777)
        os.kill(os.getpid(), signal.SIGTERM)

    mode: list[int] = []
    teller = threading.Thread(target=stop, daemon=True)
    teller.start()
    record(asked(file, source, rounds=100_000, redact=redact))
    teller.join()
    assert [path.name for path in tmp_path.glob(".*")] == []
    if redact:
        assert mode == [0o600]
    capsys.readouterr()
    replay(ReplayOptions(files=(file,), output=Output("json")))
    assert 0 < json.loads(capsys.readouterr().out)["rounds"] < 100_000


def a_choice() -> pb.OptionChoice:
    """Return a choice by price with its answer."""
    asked = pb.OptionChoice()
    asked.settings.scale_up.expanders.append(Expander.PRICE)
    for name, price in (("a", 2.0), ("b", 1.0)):
        asked.groups.add(node_group=name, price_per_hour=price, capacity={"cpu": 4000, "memory": 1 << 34})
        asked.options.add(node_group=name, node_count=1, pod_count=1, cpu_milli=1000, memory_bytes=1 << 30)
    asked.answer.CopyFrom(choose_option(asked))
    return asked


def written(path: Path, *choices: pb.OptionChoice) -> Path:
    with RecordingWriter(path) as writer:
        for one in choices:
            writer.write(one)
    return path


def test_what_was_recorded_leads_to_the_same_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replay(ReplayOptions(files=(written(tmp_path / "x.trimtab", a_choice(), a_choice()),), output=Output("json")))
    assert '"rounds": 2' in capsys.readouterr().out


def test_another_answer_than_the_recorded_one_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = a_choice()
    other.groups[0].price_per_hour = 0.5
    with pytest.raises(FailedError):
        replay(ReplayOptions(files=(written(tmp_path / "x.trimtab", other),), output=Output("json")))
    assert '"path": "nodeGroup"' in capsys.readouterr().out
