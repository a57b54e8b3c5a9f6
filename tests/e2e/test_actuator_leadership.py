"""Two actuators share one store: during a drain the leader dies, freezes for a while, or is stopped."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e import watch_log
from tests.e2e.actuator_process import deletion_of, kill, until
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries
from tests.e2e.stages import write_stages
from tests.e2e.two_actuators import TO_DRAIN, check, fill, leads, shared_store, start, to_drain, wait_for_the_end
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.common.rpc.errors import TrimtabError

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    directory = tmp_path_factory.mktemp("plane")
    stages = write_stages(cached_binaries(), directory / "stages.yaml", slow_ms=700, job_ms=100)
    with ControlPlane(cached_binaries(), directory / "state", stages=[stages]) as started:
        yield started


@pytest.mark.parametrize("way", ["killed", "stopped", "told"])
def test_the_other_takes_over_and_nothing_is_done_twice(plane: ControlPlane, tmp_path: Path, way: str) -> None:
    fill(plane, way)
    with ExitStack() as stack:
        options = [f"--store={stack.enter_context(shared_store(tmp_path))}"]
        log = stack.enter_context(watch_log.WatchLog(plane, tmp_path))
        old, old_client = start(stack, plane, tmp_path / "a", way, options)
        until(lambda: leads(old_client), 20, "the first one leads")
        new, new_client = start(stack, plane, tmp_path / "b", way, options)
        answer = old_client.start_deletion(deletion_of("drain", to_drain(way)))
        assert [one.detail for one in answer.nodes if not one.accepted] == []
        check_follower(new_client)
        until(lambda: len(old_client.get_status().recent_evictions) >= 3, 30, "some evictions")
        if way == "killed":
            kill(old)
        elif way == "told":
            old.terminate()
            assert old.wait(30) == 0
        else:
            old.send_signal(signal.SIGSTOP)
        until(lambda: leads(new_client), 30, "the second one leads")
        if way == "stopped":
            os.kill(old.pid, signal.SIGCONT)
            until(lambda: old.poll() is not None, 30, "the old leader ends")
            assert old.returncode == 2
        wait_for_the_end(plane, new_client)
        assert new.poll() is None
    check(plane, log.changes(), way)


def check_follower(client: ActuatorClient) -> None:
    """Check that it answers reads with the leader's state, and refuses other calls with the leader's name."""
    assert not client.get_info().leader
    until(lambda: len(client.get_status().deletions) == TO_DRAIN, 10, "the follower sees the deletions")
    for call in (
        lambda: client.start_deletion(deletion_of("other", ["nowhere"])),
        lambda: client.cancel_deletion(["nowhere"]),
        lambda: client.apply_taints([]),
    ):
        with pytest.raises(TrimtabError, match="NOT_LEADER") as caught:
            call()
        assert caught.value.metadata["leader"]
