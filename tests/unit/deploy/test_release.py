"""A release waits for all tests and has few rights; versions agree before anything is built. What holds for all
workflows is in test_workflows.py; the scripts themselves run in tests/e2e/test_release.py.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
TEXT = WORKFLOW.read_text(encoding="utf-8")
JOBS: dict[str, Any] = yaml.safe_load(TEXT)["jobs"]
STEPS = [(name, step) for name, job in JOBS.items() for step in job["steps"]]
RUNS = [(name, step["run"]) for name, step in STEPS if "run" in step]


def test_only_a_tag_of_three_numbers_starts_a_release() -> None:
    # YAML 1.1 reads the key `on` as a boolean.
    triggers = yaml.safe_load(TEXT)[True]
    assert triggers == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+"]}}


def test_everything_waits_for_the_tests_and_what_is_public_for_all_else() -> None:
    def before(job: str) -> set[str]:
        needs = JOBS[job].get("needs", [])
        direct = {needs} if isinstance(needs, str) else set(needs)
        return direct.union(*(before(one) for one in direct))

    assert any(".ci/run" in run for name, run in RUNS if name == "test")
    assert all("test" in before(name) for name in JOBS if name != "test")
    assert {"test", "wheel", "distributions", "image"} <= before("publish")
    assert before("package-index") >= before("publish")


def test_each_job_has_the_rights_it_needs_and_no_secret() -> None:
    assert yaml.safe_load(TEXT)["permissions"] == {}
    written = {
        name: {right for right, level in job["permissions"].items() if level == "write"} for name, job in JOBS.items()
    }
    assert written == {
        "test": set(),
        "wheel": set(),
        "distributions": {"id-token", "attestations"},
        "image": {"packages"},
        "publish": {"contents", "packages", "id-token", "attestations"},
        "package-index": {"id-token"},
    }


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What `.ci/version` reads."""
    for path in (".ci/version", "pyproject.toml", "deploy/chart/Chart.yaml", "CHANGELOG.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


def version(checkout: Path, *tag: str) -> tuple[int, str]:
    done = subprocess.run([checkout / ".ci/version", *tag], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, (done.stdout + done.stderr).strip()


def change(path: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, path.read_text(encoding="utf-8"), count=1, flags=re.MULTILINE)
    assert count, pattern
    path.write_text(text, encoding="utf-8")


def test_package_and_chart_have_one_version() -> None:
    code, told = version(ROOT)
    assert (code, re.fullmatch(r"\d+\.\d+\.\d+", told) is not None) == (0, True), told
    assert f"-t trimtab:{told} " in (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


def test_a_tag_is_accepted_if_the_changelog_has_its_date(checkout: Path) -> None:
    change(checkout / "pyproject.toml", r'^version = ".*"$', 'version = "7.8.9"')
    change(checkout / "deploy/chart/Chart.yaml", r"^version: .*$", "version: 7.8.9")
    change(checkout / "deploy/chart/Chart.yaml", r"^appVersion: .*$", 'appVersion: "7.8.9"')
    assert version(checkout) == (0, "7.8.9")
    code, told = version(checkout, "v7.8.9")
    assert code == 1
    assert "CHANGELOG.md" in told
    change(checkout / "CHANGELOG.md", r"^## .*$", "## 7.8.9 (2031-01-02)")
    assert version(checkout, "v7.8.9") == (0, "7.8.9")
    assert version(checkout, "7.8.9")[0] == 1
    assert version(checkout, "v7.8.8")[0] == 1


@pytest.mark.parametrize(
    ("file", "pattern", "replacement", "told"),
    [
        pytest.param("pyproject.toml", r'^version = ".*"$', 'version = "0.9.9"', "Chart.yaml: version", id="package"),
        pytest.param("pyproject.toml", r'^version = ".*"$', 'version = "1.0rc1"', "three numbers", id="no release"),
        pytest.param("deploy/chart/Chart.yaml", r"^version: .*$", "version: 0.9.9", "Chart.yaml: version", id="chart"),
        pytest.param("deploy/chart/Chart.yaml", r"^appVersion: .*$", "appVersion: 0.9.9", "appVersion", id="image"),
    ],
)
def test_versions_that_differ_are_named(checkout: Path, file: str, pattern: str, replacement: str, told: str) -> None:
    change(checkout / file, pattern, replacement)
    code, message = version(checkout)
    assert code == 1
    assert told in message
