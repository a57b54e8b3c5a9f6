"""The Cluster Autoscaler's recorded answers are shown only for the input that they were recorded for."""

import json
from pathlib import Path

import pytest

from trimtab.clients.cli.demo.command import Chapter, generated_chapter, recorded_chapter
from trimtab.clients.cli.demo.verdict import recorded_answers


@pytest.fixture(params=[recorded_chapter, generated_chapter])
def chapter(request: pytest.FixtureRequest, tmp_path: Path) -> Chapter:
    built: Chapter = request.param(tmp_path)
    return built


def test_the_answers_belong_to_the_clusters_of_the_demo(chapter: Chapter) -> None:
    found = recorded_answers(chapter.files[0])
    assert found is not None, "record again: tests/parity/cluster_autoscaler_oracle/demo.py"
    assert 0 < found.first_count <= found.best_count
    assert found.runs == 100


def test_no_answer_is_shown_beside_another_input(chapter: Chapter) -> None:
    file = chapter.files[0]
    listed = json.loads(file.read_bytes())
    node = next(item for item in listed["items"] if item["kind"] == "Node")
    node["status"]["allocatable"]["cpu"] = "1"
    file.write_text(json.dumps(listed))
    assert recorded_answers(file) is None
