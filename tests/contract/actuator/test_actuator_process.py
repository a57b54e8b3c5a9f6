"""`python -m trimtab.actuator` as a process: killed without warning, restarted, stopped, and given bad settings."""

import json
import os
import random
import signal
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from tests.builders import metrics
from tests.builders.actuator import small_cluster
from tests.builders.actuator_processes import command, running
from tests.builders.forked import Programs
from tests.builders.kubernetes import listed, pdb
from tests.builders.metrics import check_page
from tests.builders.waiting import LIMIT_S
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.common.rpc.errors import TrimtabError
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.v1 import actuator_pb2

DRAINED, EMPTY = ("n0", "n1", "n2", "n3"), ("n6", "n7")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "cluster.json").write_text(json.dumps(listed(*small_cluster())))
    return tmp_path


def request(request_id: str, *nodes: str, drain: bool) -> actuator_pb2.StartDeletionRequest:
    entries = [actuator_pb2.NodeToDelete(node=node, drain=drain) for node in nodes]
    return actuator_pb2.StartDeletionRequest(request_id=request_id, nodes=entries)


REQUESTS = (request("drains", *DRAINED, drain=True), request("empties", *EMPTY, drain=False))


@pytest.mark.nightly
def test_killed_repeatedly_it_still_ends_correctly(directory: Path) -> None:
    chance = random.Random(0)
    lives = 0
    while lives < 40:
        lives += 1
        with running(directory) as (process, client):
            deadline = time.monotonic() + (chance.uniform(0, 0.5) if lives <= 5 else LIMIT_S)
            try:
                for sent in REQUESTS:
                    assert all(answer.accepted for answer in client.start_deletion(sent).nodes)
                while time.monotonic() < deadline and len(client.get_status().finished) < 6:
                    time.sleep(0.01)
                done = len(client.get_status().finished) == 6
            finally:
                if lives <= 5:
                    os.kill(process.pid, signal.SIGKILL)
                    process.wait()
            if done and lives > 5:
                check_the_end(client)
                return
    raise AssertionError(f"not done after {lives} lives")


def check_the_end(client: ActuatorClient) -> None:
    status = client.get_status()
    assert {d.node: d.state for d in status.finished} == dict.fromkeys(
        (*DRAINED, *EMPTY), actuator_pb2.DeletionState.DELETED
    )
    assert not status.deletions
    (group,) = status.node_groups
    assert (group.target_size, group.instance_count) == (2, 2)
    uids = [eviction.uid for eviction in status.recent_evictions]
    assert len(uids) == len(set(uids))
    objects = json.loads(client.list_objects())["items"]
    nodes = [o for o in objects if o["kind"] == "Node"]
    assert {o["metadata"]["name"] for o in nodes} == {"n4", "n5"}
    assert not any(o["spec"].get("taints") for o in nodes)
    pods = [o for o in objects if o["kind"] == "Pod"]
    live = [o for o in pods if not o["metadata"].get("deletionTimestamp")]
    owners = [o["metadata"]["ownerReferences"][0]["name"] for o in live]
    assert (owners.count("web"), owners.count("db")) == (12, 6)


def test_events_are_measured_under_the_documented_metric_names(directory: Path) -> None:
    document = json.loads((directory / "cluster.json").read_text())
    named = {item["metadata"]["name"]: item for item in document["items"]}
    named["n6"]["status"]["allocatable"]["nvidia.com/gpu"] = "1"
    # The drain of n1 does not end before it is cancelled.
    assert named["db-1"]["spec"]["nodeName"] == "n1"
    named["db-1"]["metadata"].setdefault("labels", {})["stays"] = "here"
    document["items"].append(pdb("stays", labels={"stays": "here"}, min_available=1))
    (directory / "cluster.json").write_text(json.dumps(document))
    more = ("--metrics-address=127.0.0.1:0", "--log-level=info")
    with running(directory, *more) as (process, client):
        assert process.stderr is not None
        address = next(line for line in map(json.loads, process.stderr) if line["event"] == "listening")
        reading = threading.Thread(target=process.stderr.read)
        reading.start()
        client.apply_taints([])
        client.apply_taints(["n5"])
        client.start_deletion(request("drain", "n0", drain=True))
        client.start_deletion(request("empty", "n6", drain=False))
        wait_until_deleted(client, {"n0", "n6"})
        client.start_deletion(request("cancel", "n1", drain=True))
        assert list(client.cancel_deletion(["n1"]).cancelled) == ["n1"]
        with urllib.request.urlopen(f"http://{address['metrics_address']}/metrics", timeout=LIMIT_S) as response:
            page = response.read().decode()
        process.kill()
        reading.join()
    check_page(page, metrics.ACTUATOR)


def wait_until_deleted(client: ActuatorClient, nodes: set[str]) -> None:
    """Watch until these nodes are gone."""
    for status in client.watch_status():
        if nodes <= {deletion.node for deletion in status.finished}:
            return


def test_after_a_stop_it_ends_with_code_0_and_continues_at_the_next_start(directory: Path) -> None:
    with running(directory, "--pod-stop=0.6") as (process, client):
        client.start_deletion(REQUESTS[0])
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    with running(directory) as (_, client):
        for status in client.watch_status():
            if len(status.finished) == len(DRAINED):
                break
        assert {d.state for d in status.finished} == {actuator_pb2.DeletionState.DELETED}


def test_two_processes_cannot_work_in_one_directory(directory: Path, forked: Programs) -> None:
    with running(directory):
        other = forked(*command(directory))
    assert other.returncode == 2
    assert "another actuator uses" in other.stderr


def test_two_processes_cannot_work_on_one_store_in_different_directories(directory: Path, forked: Programs) -> None:
    (directory / "link").symlink_to(directory / "state")
    store = f"--store=sqlite:///{directory / 'link' / 'store.sqlite'}"
    with running(directory):
        more = command(directory, store, f"--state-dir={directory / 'other'}")
        other = forked(*more)
    assert other.returncode == 2
    assert "store.sqlite.lock is locked" in other.stderr


@pytest.mark.ci
def test_deleting_the_store_of_a_running_process_ends_it_with_a_reason(directory: Path) -> None:
    # The node still exists when the actuator restarts: its drain does not begin.
    with running(directory, "--delay-after-taint=1000") as (process, client):
        client.start_deletion(request("drain", "n0", drain=True))
        (directory / "state" / "store.sqlite").unlink()
        # The process may exit before it has sent its answer: then the call is cancelled.
        with pytest.raises(TrimtabError) as caught:
            client.start_deletion(request("empty", "n6", drain=False))
        assert caught.value.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
        assert process.wait(LIMIT_S) == 2
        assert process.stderr is not None
        said = process.stderr.read()
    assert "store.sqlite was deleted or replaced" in said
    assert "Traceback" not in said
    # A new store has no records, which is reported for each node.
    with running(directory) as (process, client):
        assert not client.get_status().deletions
        process.kill()
        assert process.stderr is not None
        told = [json.loads(line) for line in process.stderr.read().splitlines()]
    assert [line["node"] for line in told if line["event"] == "unknown_taint"] == ["n0"]


def test_each_change_of_state_of_each_node_is_one_line_of_the_log(directory: Path) -> None:
    with running(directory, "--log-level=info") as (process, client):
        client.start_deletion(request("both", "n0", "nowhere", drain=True))
        client.start_deletion(request("empty", "n6", drain=False))
        wait_until_deleted(client, {"n0", "n6"})
        process.kill()
        assert process.stderr is not None
        lines = [json.loads(line) for line in process.stderr.read().splitlines()]
    states = [line for line in lines if line["event"] == "node_state"]
    assert [line["state"] for line in states if line["node"] == "n0"] == [
        "PLANNED", "TAINTED", "DRAINING", "DRAINED", "DELETING", "DELETED",
    ]  # fmt: skip
    assert [line["state"] for line in states if line["node"] == "n6"] == [
        "PLANNED", "TAINTED", "DRAINED", "DELETING", "DELETED",
    ]  # fmt: skip
    assert {(line["node"], line["node_group"], line["request_id"]) for line in states} == {
        ("n0", "g", "both"), ("n6", "g", "empty"),
    }  # fmt: skip
    (refused,) = (line for line in lines if line["event"] == "node_refused")
    assert (refused["node"], refused["request_id"], refused["reason"]) == ("nowhere", "both", "NODE_NOT_FOUND")


def lose_cluster(directory: Path) -> None:
    (directory / "state").mkdir()
    (directory / "state" / "cluster.sqlite").write_text("no database, but long enough to be looked at" * 50)


def lose_store(directory: Path) -> None:
    (directory / "state").mkdir()
    (directory / "state" / "store.sqlite").write_text("no database, but long enough to be looked at" * 50)


@pytest.mark.parametrize(
    ("prepare", "more", "message"),
    [
        pytest.param(lose_cluster, [], "cluster.sqlite: the cluster in it cannot be read", id="damaged cluster"),
        pytest.param(lose_store, [], "store.sqlite", id="damaged store"),
        pytest.param(lambda _: None, ["--address-file=/proc/nowhere/address"], "/proc/nowhere", id="address file"),
        pytest.param(lambda _: None, ["--state-dir=/proc/nowhere"], "/proc/nowhere", id="state directory"),
    ],
)
def test_damaged_files_are_reported_in_one_line(
    directory: Path, forked: Programs, prepare: Callable[[Path], None], more: list[str], message: str
) -> None:
    prepare(directory)
    done = forked(*command(directory, *more))
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("trimtab-actuator: ")
    assert message in last
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        pytest.param(["--cloud=azure"], "--cloud azure is unknown", id="unknown cloud"),
        pytest.param(["--address=nowhere"], "is not host:port", id="malformed address"),
        pytest.param(["--log-level=loud"], "log level 'loud' is unknown", id="unknown log level"),
        pytest.param(["--cluster=missing.json"], "missing.json: cannot be read", id="missing file"),
        pytest.param(["--max-parallelism=0"], "--max-parallelism", id="limit of nothing"),
        pytest.param(["--drain-timeout=inf"], "--drain-timeout: inf is not a finite number", id="endless time"),
        pytest.param(["--max-plan-age=nan"], "--max-plan-age", id="no number"),
        pytest.param(["--drain-priority-config=0:10,high:5"], "'high:5' is not PRIORITY:SECONDS", id="no priority"),
        pytest.param(
            ["--store=sqlite:///missing/dir/x.sqlite"],
            "missing/dir cannot be used for state: No such file",
            id="store nowhere",
        ),
    ],
)
def test_bad_settings_are_reported_in_one_line(
    directory: Path, forked: Programs, more: list[str], message: str
) -> None:
    done = forked(*command(directory, *more))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_settings_come_from_the_environment_too(directory: Path, forked: Programs) -> None:
    done = forked(*command(directory), environment={**os.environ, "TRIMTAB_ACTUATOR_MAX_DRAIN_PARALLELISM": "0"})
    assert done.returncode == 2
    assert "TRIMTAB_ACTUATOR_MAX_DRAIN_PARALLELISM" in done.stderr or "--max-drain-parallelism" in done.stderr


def test_a_service_that_is_away_is_unavailable_to_the_client(directory: Path) -> None:
    with running(directory) as (process, client):
        process.kill()
        process.wait()
        with pytest.raises(TrimtabError, match="UNAVAILABLE"):
            ActuatorClient((directory / "address").read_text().strip(), RetryPolicy(attempts=2)).get_status()
        client.close()
