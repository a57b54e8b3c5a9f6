"""The workflows and what belongs to them: they call scripts that exist, with few rights and fixed actions; all stages
of `.ci/run` run for a pull request, on every supported Python; hooks, proposals of versions and templates name files
that exist. actionlint checks syntax and expressions (`.ci/workflows`).
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SCRIPT = re.compile(r"(?<![\w/.$-])((?:\.ci|tests|deploy)/[\w./-]+)")
CI: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
ALL = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def steps_of(path: Path) -> list[dict[str, Any]]:
    """Return the steps of all jobs of a workflow."""
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@ALL
def test_every_file_that_a_workflow_names_exists_and_every_script_can_run(path: Path) -> None:
    steps = steps_of(path)
    named = {name for step in steps for name in SCRIPT.findall(step.get("run", ""))}
    assert ".ci/run" in named
    for name in named:
        assert (ROOT / name).exists(), name
        first = (ROOT / name).read_text(encoding="utf-8").splitlines()[0]
        assert not first.startswith("#!") or os.access(ROOT / name, os.X_OK), f"{name} cannot run"
    versions = {step["with"]["go-version-file"] for step in steps if "go-version-file" in step.get("with", {})}
    assert all((ROOT / name).exists() for name in versions)


@ALL
def test_every_action_is_named_by_its_commit_with_its_version_beside_it(path: Path) -> None:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert len(lines) == sum("uses" in step for step in steps_of(path))
    for line in lines:
        assert re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


def test_an_action_has_one_version_in_all_workflows() -> None:
    used = {step["uses"] for path in WORKFLOWS for step in steps_of(path) if "uses" in step}
    assert len(used) == len({name.partition("@")[0] for name in used})


@ALL
def test_no_workflow_pastes_an_expression_into_a_script_uses_a_secret_or_keeps_credentials(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    assert "secrets." not in text
    assert [step["run"] for step in steps_of(path) if "${{" in step.get("run", "")] == []
    assert all(job["timeout-minutes"] <= 120 for job in jobs.values())
    checkouts = [step for step in steps_of(path) if step.get("uses", "").startswith("actions/checkout@")]
    assert len(checkouts) == len(jobs)
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_a_pull_request_may_only_read() -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    assert text.count("permissions:") == 1


def test_all_stages_of_ci_run_for_a_pull_request_and_the_end_to_end_stage_on_demand() -> None:
    stages = set(re.findall(r"^if wanted (\w+)", (ROOT / ".ci/run").read_text(encoding="utf-8"), re.MULTILINE))
    run = {
        name: stages - set(step["env"]["TRIMTAB_CI_SKIP"].split())
        for name, job in CI.items()
        for step in job["steps"]
        if step.get("run") == ".ci/run"
    }
    assert run == {"suite": {"tests"}, "others": stages - {"tests", "e2e"}, "end-to-end": {"e2e"}}
    assert CI["suite"]["needs"] == CI["others"]["needs"] == "quick"
    assert "'e2e'" in CI["end-to-end"]["if"]


def test_the_suite_runs_on_every_python_that_the_package_supports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    supported = [name.rpartition(" ")[2] for name in project["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert CI["suite"]["strategy"]["matrix"]["python"] == supported


def test_hooks_run_the_tools_of_the_project() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert repository["repo"] == "local"
    entries = {hook["id"]: hook["entry"].split() for hook in repository["hooks"]}
    for name, words in entries.items():
        assert words[0].startswith(".venv/bin/") or os.access(ROOT / words[0], os.X_OK), name
        assert all((ROOT / word).exists() for word in words[1:] if word.startswith("tests/")), name


def test_versions_are_proposed_for_folders_that_have_them() -> None:
    updates = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text(encoding="utf-8"))["updates"]
    holds = {"pip": "pyproject.toml", "gomod": "go.mod", "docker": "Dockerfile", "github-actions": ".github/workflows"}
    assert {update["package-ecosystem"] for update in updates} == set(holds)
    for update in updates:
        assert (ROOT / update["directory"].strip("/") / holds[update["package-ecosystem"]]).exists()


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda path: path.name
)
def test_a_form_for_issues_has_the_fields_that_github_requires(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    fields = [field["id"] for field in form["body"]]
    assert len(fields) == len(set(fields))
    assert all(field["type"] in ("textarea", "input") and field["attributes"]["label"] for field in form["body"])
