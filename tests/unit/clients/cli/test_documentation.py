"""README and the pages of `docs/` are correct: each command in them is checked in one of the ways of the table `WAYS`,
samples show what the commands print, and examples in Python run.
"""

import io
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from tests.builders.actuator_service import Service
from tests.builders.cli import Outcome, Run
from tests.builders.documentation import Command, blocks, commands, inline_commands, text_of, words
from tests.builders.planner_service import make_shell
from trimtab.actuator.service.process import app as actuator
from trimtab.clients.cli.commands import app as trimtab_commands
from trimtab.clients.cluster_generator.__main__ import main as generator
from trimtab.common.kubernetes.registry import EXPORTED_KINDS, WATCHED
from trimtab.planner.process import app as planner

ROOT = Path(__file__).parents[4]
RECORDED = ROOT / "clients/data/recordings/openshift-metal.json.gz"


class Way(Enum):
    """How a command of the documentation is checked."""

    CI = "`.ci/run` runs the line as it stands in README; the extras in it exist"
    PLANE = "tests/e2e/test_documentation.py runs it on a real control plane; here its options are read"
    PREPARED = "runs here before the others and writes a file that they read"
    RUN = "runs here; what the page shows is compared with what it prints"
    PIPED = "the part for trimtab runs here, on a recorded cluster in place of kubectl's output"
    OPTIONS = "command, arguments, options and their values are read by the program, which then does not run"
    CALLS = "tests/contract/test_call_it.py runs the line as it stands"
    NAMES = "another project's program: its options, and files and objects of ours in it, are known"


WAYS = (
    (r"python3 -m venv .*", Way.CI),
    (r"source \.venv/bin/activate|kill \$!", Way.PLANE),
    (r"echo .* > groups\.json", Way.PLANE),
    (r"trimtab-planner .*&", Way.PLANE),
    (r"trimtab run --act none .*", Way.PLANE),
    (r"python -m trimtab\.clients\.cluster_generator .*|printf .* > prices\.csv", Way.PREPARED),
    (r"kubectl get .* > cluster\.json", Way.NAMES),
    (r"jq .*|grpcurl .*|python -m grpc_tools\.protoc .*|npm install .*|npx tsx .*", Way.CALLS),
    (r"kubectl get .* \| trimtab .*|trimtab plan cluster\.json", Way.PIPED),
    (r"trimtab top (?!.*--once).*|trimtab top", Way.OPTIONS),
    (r"trimtab plan --context .*|trimtab advise .* --usage .*", Way.OPTIONS),
    (r"trimtab (plan|advise|rightsize|admin certificates|top) [^|]*", Way.RUN),
    (r"trimtab plan .* \| kubectl apply -f -", Way.RUN),
    (r"trimtab (run|admin load|simulate) .*", Way.OPTIONS),
    (r"helm template .* \| kubectl apply -f -|(kubectl|helm|docker) [^|>]*", Way.NAMES),
    (r"pip install .*|\.ci/\S+.*|(ruff|mypy|lint-imports|pytest|mkdocs)\b.*|python -m tests\..*", Way.NAMES),
)
"""The first pattern that matches the whole line decides."""

# Options of other projects' programs that the pages use, by command.
FOREIGN = {
    "kubectl get": {"-A", "-o", "-l", "--watch"},
    "kubectl apply": {"-f", "-k"},
    "kubectl create": set(),
    "kubectl edit": {"-n"},
    "kubectl rollout": {"-n"},
    "kubectl patch": {"-n", "--patch-file"},
    "helm install": {"--namespace", "--values"},
    "helm template": {"--namespace", "--values"},
    "helm upgrade": {"--namespace", "--reset-then-reuse-values", "--values"},
    "docker build": {"-f", "-t"},
}


def way_of(line: str) -> Way | None:
    """Return how a command is checked; None fails the test of the table."""
    return next((way for pattern, way in WAYS if re.fullmatch(pattern, line)), None)


def checked_by(*ways: Way) -> list[Command]:
    """Return commands that are checked in such a way, without those that another page shows, too."""
    unique = {(one.line, one.output): one for one in commands() if way_of(one.line) in ways}
    return list(unique.values())


def of_page(one: Command) -> str:
    return f"{one.page}: {one.line}"


def lines(text: str) -> list[str]:
    """Return the lines of a text without trailing blanks."""
    return [line.rstrip() for line in text.strip().splitlines()]


def test_every_command_is_checked_in_one_way_and_each_way_is_used() -> None:
    first = [next((pattern for pattern, _ in WAYS if re.fullmatch(pattern, one.line)), None) for one in commands()]
    unmatched = [of_page(one) for one, pattern in zip(commands(), first, strict=True) if pattern is None]
    assert unmatched == []
    assert [pattern for pattern, way in WAYS if pattern not in first and way is not Way.NAMES] == []
    assert {way_of(one.line) for one in commands()} == set(Way)


def test_every_fenced_block_has_a_language_that_is_checked_here_or_is_a_picture() -> None:
    checked = {"bash", "console", "csv", "go", "json", "python", "typescript", "yaml"}
    assert {block.language for block in blocks()} == {*checked, "mermaid"}


def prepared(path: Path) -> Path:
    """Write the clusters, prices and settings that the pages write, and return the directory."""
    path.mkdir()
    (path / "clients").symlink_to(ROOT / "clients")
    for one in checked_by(Way.PREPARED):
        if one.line.startswith("python "):
            generate_cluster(path, words(one.line)[0][3:])
        else:
            subprocess.run(["bash", "-c", one.line], cwd=path, check=True)
    (settings,) = [block.text for block in blocks("yaml") if block.page == "docs/jobs.md" and "slack:" in block.text]
    (path / "settings.yaml").write_text(settings, encoding="utf-8")
    # Of the page on plans: a node group, one with a template, settings with replacement.
    _, offered, replacement = [block.text for block in blocks("yaml") if block.page == "docs/plan.md"]
    (path / "group.yaml").write_text(offered, encoding="utf-8")
    (path / "replacement.yaml").write_text(replacement, encoding="utf-8")
    return path


def generate_cluster(path: Path, arguments: list[str]) -> None:
    """Run the generator in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        patch.setattr(sys, "argv", ["cluster_generator", *arguments])
        generator()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("documentation") / "small")


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return such a directory with five times as many nodes in the cluster of the pages."""
    path = prepared(tmp_path_factory.mktemp("documentation") / "large")
    generate_cluster(path, ["cluster.json.gz", "--nodes", "300", "--pods", "6000", "--seed", "2"])
    return path


def run(trimtab: Run, directory: Path, monkeypatch: pytest.MonkeyPatch, line: str, *more: str) -> Outcome:
    """Run a command line of a page where its files are, with further options."""
    monkeypatch.chdir(directory)
    monkeypatch.setenv("COLUMNS", "100")
    if "--state last.json" in line:
        (directory / "last.json").write_text(trimtab("plan", "cluster.json.gz", "-o", "json").out, encoding="utf-8")
    outcome = trimtab(*words(line)[0][1:], *more)
    assert outcome.code == 0, outcome.err
    if "kubectl apply" in line:
        assert all(document["kind"] for document in yaml.safe_load_all(outcome.out))
    return outcome


def with_few_plans(line: str) -> tuple[str, ...]:
    """Return options that leave out advice, or most of it, where no page shows it; .ci/run has them all."""
    few = {"plan": ("--no-advice",), "advise": ("--most-plans", "4")}
    return few.get(line.split()[1], ())


@pytest.mark.parametrize("one", checked_by(Way.RUN), ids=of_page)
def test_the_command_runs_and_prints_the_sample(
    trimtab: Run, directory: Path, monkeypatch: pytest.MonkeyPatch, one: Command
) -> None:
    shown, rest, _ = one.output.partition("\n…")
    more = () if shown and not rest else with_few_plans(one.line)
    printed = lines(run(trimtab, directory, monkeypatch, one.line, *more).out)
    if shown:
        assert (printed[: len(lines(shown))] if rest else printed) == lines(shown), f"paste again: {of_page(one)}"


# Those in the text, without those that a block of the pages has, too.
IN_THE_TEXT = sorted(
    {one.line for one in inline_commands("trimtab") if "cluster.json.gz" in one.line}
    - {one.line for one in checked_by(Way.RUN)}
)


@pytest.mark.parametrize("line", IN_THE_TEXT)
def test_the_commands_in_the_text_about_the_sample_run(
    trimtab: Run, directory: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    assert run(trimtab, directory, monkeypatch, line, *with_few_plans(line)).out


@pytest.mark.ci
@pytest.mark.parametrize(
    "line",
    # Workloads and nodes of the small cluster are not in the larger one.
    [
        line
        for line in sorted({*IN_THE_TEXT, *(one.line for one in checked_by(Way.RUN))})
        if "cluster.json.gz" in line and "explain" not in line
    ],
)
def test_the_commands_about_the_sample_run_on_a_cluster_five_times_as_large(
    trimtab: Run, larger: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    assert run(trimtab, larger, monkeypatch, line).out


def test_each_sample_of_a_page_is_the_output_of_a_command_that_runs_here() -> None:
    shown = {one.line for one in commands() if one.output}
    assert shown == {one.line for one in checked_by(Way.RUN) if one.output}


@pytest.mark.parametrize("one", checked_by(Way.PIPED), ids=of_page)
def test_a_plan_of_what_kubectl_prints_needs_one_pipe(
    trimtab: Run, directory: Path, monkeypatch: pytest.MonkeyPatch, one: Command
) -> None:
    arguments = ["-" if word == "cluster.json" else word for word in words(one.line)[-1][1:]]
    monkeypatch.chdir(directory)
    with RECORDED.open("rb") as listed:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(listed))
        outcome = trimtab(*arguments, "--no-advice")
    assert outcome.code == 0, outcome.err
    assert ("of 6 nodes can go" in outcome.out) or "slack" in arguments


def programs() -> dict[str, Any]:
    """Return the commands of our programs by name."""
    return {
        "trimtab": typer.main.get_command(trimtab_commands),
        "trimtab-planner": typer.main.get_command(planner),
        "trimtab-actuator": typer.main.get_command(actuator),
    }


def read_options(program: str, *arguments: str) -> None:
    """Have a program of ours read its arguments without running it. Raises typer's exception for any it refuses."""
    command = programs()[program]
    while hasattr(command, "commands"):
        command = command.commands[arguments[0]]
        arguments = arguments[1:]
    command.make_context(program, list(arguments))


OURS = [one for one in commands() if any(program.startswith("trimtab") for program, *_ in words(one.line))]


@pytest.mark.parametrize("one", sorted({(one.line): one for one in OURS}.values()), ids=of_page)
def test_the_program_knows_the_command_and_its_options(one: Command) -> None:
    for program, *arguments in words(one.line):
        if program.startswith("trimtab"):
            read_options(program, *arguments)


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ("run --plannr a:1", "No such option"),
        ("run --planner", "requires an argument"),
        ("admin load --bursts many", "valid integer"),
        ("plans cluster.json", "plans"),
    ],
)
def test_wrong_options_would_be_noticed(arguments: str, refusal: str) -> None:
    with pytest.raises(Exception, match=refusal):
        read_options("trimtab", *arguments.split())


@pytest.mark.parametrize(
    "one",
    sorted({one.line: one for one in inline_commands("trimtab", "kubectl trimtab", *list(programs())[1:])}.values()),
    ids=of_page,
)
def test_commands_in_the_text_have_known_names_and_options(one: Command) -> None:
    program, *arguments = one.line.removeprefix("kubectl ").split()
    command = programs()[program]
    subcommands = getattr(command, "commands", {})
    used = [word for word in arguments if word in subcommands]
    placeholders = {"COMMAND", "…"}
    assert used or program != "trimtab" or arguments[0].startswith("--") or arguments[0] in placeholders, one
    below = [subcommands[word] for word in used]
    below += [one.commands[word] for one in below for word in arguments if word in getattr(one, "commands", {})]
    known = {name for each in (command, *below) for name in options_of(each)}
    options = {word.partition("=")[0] for word in arguments if re.match(r"--?[a-z]", word)}
    assert options - known == set()


def test_the_page_on_commands_lists_every_command() -> None:
    rows = [row.split("|")[1] for row in text_of("docs/plan.md").splitlines() if row.startswith("| `")]
    listed = set(re.findall(r"`trimtab ([a-z]+)", " ".join(rows)))
    assert listed == set(programs()["trimtab"].commands)


@pytest.mark.parametrize(("page", "columns"), [("docs/operate.md", (1, 2, 3)), ("docs/clouds.md", (3,))])
def test_tables_of_flags_name_flags_of_the_services(page: str, columns: tuple[int, ...]) -> None:
    known = {name for command in programs().values() for name in options_of(command)}
    rows = [row.split("|") for row in text_of(page).replace("\\|", "/").splitlines() if row.startswith("| `")]
    named = {flag for row in rows for column in columns for flag in re.findall(r"--[a-z][a-z-]+", row[column])}
    assert len(named) > 10
    assert named - known == set()


def options_of(command: Any) -> Iterator[str]:
    yield from ("--help", "--install-completion", "--show-completion")
    for parameter in command.params:
        yield from parameter.opts


@pytest.mark.parametrize("one", checked_by(Way.CI), ids=of_page)
def test_an_installation_names_extras_that_exist(one: Command) -> None:
    extras = tomllib.loads(text_of("pyproject.toml"))["project"]["optional-dependencies"]
    named = [extra for group in re.findall(r"'\.\[(.*?)\]'", one.line) for extra in group.split(",")]
    assert named
    assert set(named) <= set(extras)


def test_every_extra_is_in_the_table_of_extras_and_no_other_is() -> None:
    table = re.search(r"^\| extra \| for \|\n(.*?)\n\n", text_of("docs/install.md"), re.MULTILINE | re.DOTALL)
    assert table
    listed = [
        name for row in re.findall(r"^\| (`.*?`) \|", table[1], re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    ]
    extras = tomllib.loads(text_of("pyproject.toml"))["project"]["optional-dependencies"]
    assert sorted(listed) == sorted(extras)


def test_readme_has_the_two_commands_that_ci_runs() -> None:
    assert len(re.findall(r"^python3 -m venv \.venv && ", text_of("README.md"), re.MULTILINE)) == 2


@pytest.mark.parametrize(
    "one",
    [one for one in commands() if {"kubectl", "helm", "docker"} & {program for program, *_ in words(one.line)}],
    ids=of_page,
)
def test_other_programs_get_known_options_files_and_objects_of_trimtab(one: Command) -> None:
    for program, *arguments in words(one.line):
        if program not in ("kubectl", "helm", "docker"):
            continue
        verb = next(word for word in arguments if word in {name.split()[1] for name in FOREIGN})
        assert {word for word in arguments if re.match("--?[a-z]", word)} - {"-n"} <= FOREIGN[f"{program} {verb}"]
        if verb == "get":
            kinds = set(arguments[arguments.index("get") + 1].split(","))
            assert kinds <= {*EXPORTED_KINDS.split(","), *(resource.plural for resource in WATCHED.values())}
        for word in arguments:
            check_name(word)


def check_name(word: str) -> None:
    """Check a path or object of ours."""
    if word.startswith("deploy/") or "/Dockerfile" in word:
        assert (ROOT / word).exists(), word
    if word.startswith(("deployment/", "trimtab-")):
        kind, _, name = word.rpartition("/")
        assert (name in deployed(kind.capitalize())) or (not kind and name in deployed()), word


def deployed(kind: str = "") -> set[str]:
    """Return the names of objects that the chart's templates have."""
    texts = [path.read_text() for path in (ROOT / "deploy/chart/templates").glob("*.yaml")]
    found = [part for text in texts for part in text.split("---") if f"kind: {kind}" in part]
    return {name for part in found for name in re.findall(r"^metadata:(?: {|\n  )name: ([a-z.-]+)", part, re.MULTILINE)}


def test_the_secrets_that_are_applied_are_the_ones_that_were_written(
    trimtab: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for one in commands():
        if re.match("trimtab admin certificates ", one.line) and not (tmp_path / words(one.line)[0][3]).exists():
            assert trimtab(*words(one.line)[0][1:]).code == 0
    applied = [words(one.line)[0][-1] for one in commands() if re.match(r"kubectl apply -f .*secrets", one.line)]
    assert applied
    for path in applied:
        kinds = {document["kind"] for document in yaml.safe_load_all((tmp_path / path).read_text())}
        assert kinds == {"Secret"}


@pytest.mark.ci
def test_the_python_examples_print_plans_nodes_and_advice(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(directory)
    first, second = [
        one.text for one in blocks("python") if one.page == "docs/call-it.md" and "import grpc" not in one.text
    ][:2]
    exec(compile(first, "call-it.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("26 of 60 nodes can go (43 %). That saves 12.13 of 28.53 an hour")
    assert any(line.startswith("If the utilization threshold were") for line in printed)
    assert "127.0.0.1:8085" in second
    with make_shell() as shell:
        capsys.readouterr()
        exec(compile(second.replace("127.0.0.1:8085", shell.address), "call-it.md", "exec"), {})
        assert "28 of 60 nodes can go" in capsys.readouterr().out


def test_the_example_of_orders_deletes_a_node(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = [block.text for block in blocks("python") if "127.0.0.1:8086" in block.text]
    with closing(Service()) as service:
        exec(compile(example.replace("127.0.0.1:8086", service.shell.address), "call-it.md", "exec"), {})
    # The actuator's log is on stdout too.
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("n1 ")]
    assert printed == ["n1 accepted", "n1 DELETED"]


def test_the_simulation_example_holds() -> None:
    (example,) = [block.text for block in blocks("python") if block.page == "docs/simulate.md"]
    exec(compile(example, "simulate.md", "exec"), {})
