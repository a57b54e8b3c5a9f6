"""The README is correct: its commands run and give its sample answer, and its client example works."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.planner.test_planner_process import running
from tests.unit.clients.cli.conftest import Run
from trimtab.clients.planner_client import PlannerClient
from trimtab.clients.rpc.client import RetryPolicy

ROOT = Path(__file__).parents[4]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")


def blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the clusters that the README makes."""
    made = tmp_path_factory.mktemp("readme")
    for sample in blocks("console"):
        command = sample.splitlines()[0].removeprefix("$ python ").split()
        subprocess.run(
            [sys.executable, *command],
            cwd=made,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
        )
    return made


def lines(text: str) -> list[str]:
    """Return the lines of a text without what ends them."""
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("sample", blocks("console"), ids=lambda sample: sample.splitlines()[1].removeprefix("$ "))
def test_the_sample_answer_is_the_answer_to_the_command_above_it(
    trimtab: Run, directory: Path, monkeypatch: pytest.MonkeyPatch, sample: str
) -> None:
    monkeypatch.chdir(directory)
    monkeypatch.setenv("COLUMNS", "100")
    command, shown = sample.split("\n", 2)[1:]
    outcome = trimtab(*command.removeprefix("$ trimtab ").split())
    assert outcome.code == 0, outcome.err
    assert lines(outcome.out) == lines(shown), f"paste again: {command}"


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`trimtab ([a-z]+ cluster\.json\.gz[^`]*)`", README))))
def test_the_commands_about_the_sample_run(
    trimtab: Run, directory: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(directory)
    outcome = trimtab(*command.split())
    assert outcome.code == 0, outcome.err
    assert outcome.out


def test_a_plan_of_what_kubectl_prints_needs_one_pipe(directory: Path) -> None:
    (command,) = [line for block in blocks("") for line in block.splitlines() if line.startswith("kubectl ")]
    arguments = command.partition("| trimtab ")[2].split()
    with (ROOT / "clients/data/recordings/openshift-metal.json.gz").open("rb") as listed:
        done = subprocess.run(
            [sys.executable, "-m", "trimtab.clients.cli", *arguments],
            stdin=listed,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "of 6 nodes can go" in done.stdout


def test_the_client_example_prints_the_nodes_that_can_go(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(directory)
    (example,) = blocks("python", PYTHON)
    assert "127.0.0.1:8085" in example
    with running(tmp_path, "--metrics-address=") as (_, address):
        with PlannerClient(address, RetryPolicy(total_s=240)) as client:
            client.wait_until_serving(240)
        exec(compile(example.replace("127.0.0.1:8085", address), "python.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) > 100
    assert all(re.match(r"[a-z]+-[a-c]-\d+ \d", line) for line in printed)
