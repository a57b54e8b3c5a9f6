"""The package as users install it: one import root, beside whatever else is in their folders."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest
from readme_renderer import markdown

from tests.builders.notes import Note

ROOT = Path(__file__).resolve().parents[2]
FOREIGN = "raise SystemExit('a folder of the user was imported')\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the built wheel."""
    directory = tmp_path_factory.mktemp("wheel")
    build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(directory))
    subprocess.run([sys.executable, *build, str(ROOT)], check=True, timeout=200)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what the wheel installs, and nothing else."""
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the built source distribution."""
    directory = tmp_path_factory.mktemp("source")
    hatch = (sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(directory))
    subprocess.run(hatch, cwd=ROOT, check=True, capture_output=True, timeout=200)
    (built,) = directory.glob("*.tar.gz")
    return built


@pytest.fixture(scope="module")
def from_source(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel that is built from the source distribution."""
    directory = tmp_path_factory.mktemp("wheel-from-source")
    build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(directory))
    subprocess.run([sys.executable, *build, str(source)], check=True, timeout=200)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """Return a working directory whose folders are named as parts of the project are."""
    for name in ("planner", "actuator", "clients", "common", "protos", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(FOREIGN)
        (tmp_path / name / "__main__.py").write_text(FOREIGN)
    return tmp_path


@pytest.mark.ci
def test_the_wheel_has_one_import_root(installed: Path) -> None:
    (metadata,) = installed.glob("*.dist-info")
    assert {path.name for path in installed.iterdir()} == {"trimtab", metadata.name}


def test_the_wheel_has_every_module_and_data_file_of_the_repository(installed: Path) -> None:
    expected = {
        Path(*(() if folder == "protos/trimtab" else (folder,)), path.relative_to(ROOT / folder))
        for folder in ("planner", "actuator", "clients", "common", "protos/trimtab")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not {"__pycache__", "go"} & set(path.relative_to(ROOT).parts)
    }
    found = {path.relative_to(installed / "trimtab") for path in (installed / "trimtab").rglob("*") if path.is_file()}
    assert found == expected


@pytest.mark.ci
def test_a_wheel_from_the_source_distribution_has_the_same_files(wheel: Path, from_source: Path) -> None:
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(from_source) as other:
        assert sorted(other.namelist()) == sorted(one.namelist())


@pytest.fixture(scope="module")
def metadata(installed: Path) -> Message:
    """Return the wheel's metadata."""
    (folder,) = installed.glob("*.dist-info")
    return HeaderParser().parsestr((folder / "METADATA").read_text(encoding="utf-8"))


def test_the_wheels_version_is_the_projects(metadata: Message) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (metadata["Name"], metadata["Version"]) == ("trimtab", project["version"])


def test_the_description_is_the_readme_with_paths_instead_of_links_into_the_repository(metadata: Message) -> None:
    assert metadata["Description-Content-Type"] == "text/markdown"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.compile(r"\[([^]]+)\]\(([^)#]+)(?:#[^)]*)?\)")
    assert {target for _, target in links.findall(readme) if not (ROOT / target).exists()} == set()
    expected = links.sub(r"\1 (`\2`)", re.sub(r"!\[[^]]*\]\([^)]*\)\n+", "", readme))
    text = str(metadata.get_payload())
    assert text.startswith(expected)
    assert text[len(expected) :].startswith("\n## This description\n")


def test_the_description_renders_without_a_link_that_leads_nowhere(metadata: Message) -> None:
    page = markdown.render(str(metadata.get_payload()))
    assert page is not None
    assert "<pre" in page
    assert [
        link for link in re.findall(r'(?:href|src)="([^"]*)"', page) if not link.startswith(("https://", "#"))
    ] == []


def test_every_file_that_the_description_names_is_in_the_source_distribution(metadata: Message, source: Path) -> None:
    named = set(re.findall(r" \(`([^` ]+\.md|LICENSE)`\)", str(metadata.get_payload())))
    with tarfile.open(source) as archive:
        there = {name.partition("/")[2] for name in archive.getnames()}
    assert len(named) > 10
    assert named <= there


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_plain_installation_in_a_clean_environment_has_the_client_and_no_compiler(
    wheel: Path, tmp_path: Path, note: Note
) -> None:
    # Dependencies come from the package index.
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, timeout=200)
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    before = {path.name for path in site.iterdir()}
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-compile", wheel], check=True, timeout=600)
    (record,) = site.glob("trimtab-*.dist-info/RECORD")
    roots = {line.split("/")[0] for line in record.read_text(encoding="utf-8").splitlines() if line[:3] != "../"}
    assert roots == {"trimtab", record.parent.name}
    program = """if True:
        import importlib.util, sys
        import trimtab.clients.planner_client
        loaded = {name for name in ("numba", "llvmlite", "sqlalchemy", "typer", "kubernetes") if name in sys.modules}
        there = {name for name in ("numba", "llvmlite", "sqlalchemy", "typer") if importlib.util.find_spec(name)}
        assert not loaded | there, loaded | there
    """
    subprocess.run([python, "-c", program], cwd=tmp_path, check=True, timeout=200)
    files = (file for path in site.iterdir() if path.name not in before for file in [path, *path.rglob("*")])
    size = sum(file.stat().st_size for file in files if file.is_file())
    note(f"a plain installation has {size / 2**20:.0f} MiB")


@pytest.mark.ci
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("-m", "trimtab.planner", "--version"), id="the planner"),
        pytest.param(("-m", "trimtab.actuator", "--version"), id="the actuator"),
        pytest.param(("-m", "trimtab.clients.cli", "plan", "--help"), id="the command line"),
        pytest.param(
            (
                "-c",
                "from trimtab.common.objects import read_files;"
                "from trimtab.clients.planner_client import PlannerClient",
            ),
            id="the client",
        ),
    ],
)
def test_folders_of_the_user_that_are_named_like_parts_of_the_project_break_nothing(
    installed: Path, crowded: Path, arguments: tuple[str, ...]
) -> None:
    # Python puts the working directory first on its path, and these packages second.
    program = "import sys, runpy; sys.path.insert(1, sys.argv.pop(1)); kind, what, *sys.argv[1:] = sys.argv[1:]\n"
    program += "runpy.run_module(what, run_name='__main__', alter_sys=True) if kind == '-m' else exec(what)"
    done = subprocess.run(
        [sys.executable, "-c", program, str(installed), *arguments],
        cwd=crowded, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_the_folders_of_the_user_would_be_noticed(crowded: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import clients"], cwd=crowded, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "a folder of the user was imported" in done.stderr
