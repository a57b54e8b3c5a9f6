"""`trimtab explain FILE fit` as a user runs it, on files and with a running planner, gives the scheduler's answers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.forked import Programs
from tests.parity.agreement import Verdict, disagreement
from tests.parity.recordings import Recorded, key_of, nasty, objects, pending, recorded, refusals, valid_part
from trimtab.clients.cli.demo import services

STORAGE = ("PersistentVolume", "PersistentVolumeClaim", "PersistentVolumeClaimList", "StorageClass", "CSINode")


def cluster_of(name: str) -> Recorded:
    """The first recorded cluster of a set, or a hand-written one."""
    return next(iter(recorded(name).values())) if name in RECORDED else valid_part(nasty(name))


RECORDED = ("node_predicates", "all_features", "volumes")
HAND_WRITTEN = (
    "resources_in_every_notation",
    "in_tree_volumes_are_matched_as_csi_on_migrated_nodes",
    "a_node_that_has_reported_nothing_yet",
)


def written(directory: Path, one: Recorded) -> list[Path]:
    """A cluster in files of three kinds, as kubectl prints and people keep them."""
    items = objects(one.document)
    nodes = [item for item in items if item["kind"] in ("Node", "Namespace")]
    storage = [item for item in items if item["kind"] in STORAGE]
    pods = [item for item in items if item["kind"] == "Pod"]
    files = [directory / "nodes.json", directory / "storage.yaml", directory / "pods.json.gz"]
    files[0].write_text(json.dumps(listed(nodes)))
    files[1].write_text(yaml.safe_dump_all(storage))
    files[2].write_bytes(gzip.compress(json.dumps(listed(pods)).encode()))
    return files


def listed(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Objects as `kubectl get -o json` prints several."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items}


def printed(forked: Programs, *arguments: object, pods: Sequence[str] = ("fit",)) -> dict[tuple[str, str], Verdict]:
    """Return the output of `trimtab explain FILE fit` by pod and node."""
    done = forked("trimtab.clients.cli", "explain", *arguments, *pods, "-o", "json")
    assert done.returncode == 0, done.stderr
    verdicts = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        assert set(row) - {"insufficient"} == {"pod", "node", "fits", "reasons"}
        verdict = Verdict(row["fits"], tuple(row["reasons"]), tuple(row.get("insufficient", ())))
        assert (row["pod"], row["node"]) not in verdicts
        verdicts[row["pod"], row["node"]] = verdict
    return verdicts


def disagreements(one: Recorded, verdicts: dict[tuple[str, str], Verdict]) -> list[str]:
    """Where the lines printed differ from the scheduler's answers; every pair must have its line."""
    wanted = {(answer["pod"], node) for answer in one.answers for node in one.node_names}
    assert set(verdicts) == wanted
    return [
        f"{answer['pod']} on {node}: {text}"
        for answer in one.answers
        for node, expected in refusals(answer, one.node_names).items()
        if (text := disagreement(expected, verdicts[answer["pod"], node]))
    ]


@pytest.mark.parametrize("name", RECORDED)
def test_fit_over_files_prints_what_the_scheduler_answered(name: str, tmp_path: Path, forked: Programs) -> None:
    one = cluster_of(name)
    assert disagreements(one, printed(forked, *written(tmp_path, one))) == []


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a ready planner process."""
    with services.planner(tmp_path_factory.mktemp("planner")) as service:
        yield service.address


@pytest.mark.ci
@pytest.mark.parametrize("name", HAND_WRITTEN)
def test_fit_through_a_running_planner_prints_what_the_scheduler_answered(
    name: str, tmp_path: Path, address: str, forked: Programs
) -> None:
    one = cluster_of(name)
    assert disagreements(one, printed(forked, "--planner", address, *written(tmp_path, one))) == []


@pytest.mark.ci
def test_running_pods_of_a_real_cluster_are_asked_about_as_if_taken_out(
    tmp_path: Path, address: str, forked: Programs
) -> None:
    one = min((r for r in recorded("selfcheck").values() if r.mode == "selfcheck"), key=lambda r: len(r.answers))
    one = one._replace(answers=one.answers[:20])
    pods = [f"fit/{answer['pod']}" for answer in one.answers]
    assert disagreements(one, printed(forked, "--planner", address, *written(tmp_path, one), pods=pods)) == []


def test_the_clusters_chosen_say_yes_and_no_to_pods_that_wait() -> None:
    for name in (*RECORDED, *HAND_WRITTEN):
        one = cluster_of(name)
        assert [answer["pod"] for answer in one.answers] == [key_of(pod) for pod in pending(one.document)]
        outcomes = {bool(plugins) for answer in one.answers for plugins in refusals(answer, one.node_names).values()}
        assert outcomes == {True, False}, name
