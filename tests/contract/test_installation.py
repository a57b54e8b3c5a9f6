"""The package as users install it: one import root, beside whatever else is in their folders."""

import subprocess
import sys
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

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
def from_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel that is built from the source distribution."""
    directory = tmp_path_factory.mktemp("source")
    hatch = (sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(directory))
    subprocess.run(hatch, cwd=ROOT, check=True, capture_output=True, timeout=200)
    (source,) = directory.glob("*.tar.gz")
    build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(directory))
    subprocess.run([sys.executable, *build, str(source)], check=True, timeout=200)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """Return a working directory whose folders are named as parts of the project are."""
    for name in ("planner", "actuator", "clients", "protos", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(FOREIGN)
        (tmp_path / name / "__main__.py").write_text(FOREIGN)
    return tmp_path


def test_the_wheel_has_one_import_root(installed: Path) -> None:
    (metadata,) = installed.glob("*.dist-info")
    assert {path.name for path in installed.iterdir()} == {"trimtab", metadata.name}


def test_the_wheel_has_every_module_and_data_file_of_the_repository(installed: Path) -> None:
    expected = {
        Path(*(() if folder == "protos/trimtab" else (folder,)), path.relative_to(ROOT / folder))
        for folder in ("planner", "actuator", "clients", "protos/trimtab")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    found = {path.relative_to(installed / "trimtab") for path in (installed / "trimtab").rglob("*") if path.is_file()}
    assert found == expected


def test_a_wheel_from_the_source_distribution_has_the_same_files(wheel: Path, from_source: Path) -> None:
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(from_source) as other:
        assert sorted(other.namelist()) == sorted(one.namelist())


def test_the_wheels_version_is_the_projects_and_its_description_is_the_readme(installed: Path) -> None:
    (metadata,) = installed.glob("*.dist-info")
    headers = HeaderParser().parsestr((metadata / "METADATA").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (headers["Name"], headers["Version"]) == ("trimtab", project["version"])
    assert headers["Description-Content-Type"] == "text/markdown"
    assert headers.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("-m", "trimtab.planner", "--version"), id="the planner"),
        pytest.param(("-m", "trimtab.actuator", "--version"), id="the actuator"),
        pytest.param(("-m", "trimtab.clients.cli", "plan", "--help"), id="the command line"),
        pytest.param(
            (
                "-c",
                "from trimtab.clients.snapshots.objects import read_files;"
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
