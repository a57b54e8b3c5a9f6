"""Packages of images and of the tools that build a release are locked: every dependency, with hashes; those of images
with their licences. The check needs no network.
"""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
IMAGES = ROOT / "deploy" / "images"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = ("cli", "planner", "actuator", "kubernetes", "postgresql", "otlp", "aws")
"""As in the image: `.ci/lock`."""
BUILD = [Requirement(text) for text in PROJECT["build-system"]["requires"]]
RELEASE_TOOLS = [line for line in (ROOT / ".ci" / "release.in").read_text().splitlines() if not line.startswith("#")]
FORBIDDEN = re.compile(r"\b(AGPL|GPL|GNU (Affero )?General)", re.IGNORECASE)


def locked(name: str) -> dict[str, str]:
    """Return versions by name. Each must have hashes."""
    found = {}
    for entry in re.split(r"\n(?=\S)", (IMAGES / name).read_text().strip()):
        pin = re.match(r"([A-Za-z0-9._-]+)==([^ ;\\]+)", entry)
        assert pin, f"{entry[:60]!r} is not a pinned package"
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), f"{pin[1]} has no hash"
        found[canonicalize_name(pin[1])] = pin[2]
    return found


def wanted() -> list[Requirement]:
    project = PROJECT["project"]
    texts = [*project["dependencies"], *(one for extra in EXTRAS for one in project["optional-dependencies"][extra])]
    found = [Requirement(text) for text in texts]
    return [one for one in found if one.name != PROJECT["project"]["name"]]


@pytest.mark.parametrize(
    ("file", "requirements"),
    [
        pytest.param("requirements.lock", wanted(), id="what runs"),
        pytest.param("build.lock", BUILD, id="what builds"),
        pytest.param("../../.ci/release.lock", [*BUILD, *map(Requirement, RELEASE_TOOLS)], id="what builds a release"),
    ],
)
def test_every_dependency_is_locked_at_a_version_that_the_project_takes(
    file: str, requirements: list[Requirement]
) -> None:
    versions = locked(file)
    for one in requirements:
        name = canonicalize_name(one.name)
        assert name in versions, f"{one} is not locked: run .ci/lock"
        assert one.specifier.contains(versions[name], prereleases=True), f"{one} is locked at {versions[name]}"


def test_a_package_without_a_hash_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.lock").write_text("numpy==2.0.0\n")
    monkeypatch.setitem(locked.__globals__, "IMAGES", tmp_path)
    with pytest.raises(AssertionError, match="no hash"):
        locked("x.lock")


def test_the_image_installs_only_with_hashes() -> None:
    text = (IMAGES / "Dockerfile").read_text()
    installs = [line for line in re.split(r"RUN|&&", text) if re.search(r"pip (--python \S+ )?install", line)]
    assert len(installs) == 3
    for line in installs:
        assert "--require-hashes" in line or "--no-deps /wheels/" in line
    assert "--no-build-isolation" in text
    lock = (ROOT / ".ci" / "lock").read_text()
    assert all(f"--extra {extra}" in lock for extra in EXTRAS)


def test_the_licence_of_every_locked_package_is_listed() -> None:
    rows = re.findall(r"^\| (\S+) \| (\S+) \| (.+) \|$", (IMAGES / "LICENCES.md").read_text(), re.MULTILINE)
    listed = {canonicalize_name(name): version for name, version, _ in rows if name not in ("package", "---")}
    assert listed == locked("requirements.lock")
    licences = {name: licence for name, _, licence in rows}
    assert not [name for name, licence in licences.items() if licence == "unknown"]
    # The LGPL is acceptable for unmodified libraries.
    assert not [name for name, licence in licences.items() if FORBIDDEN.search(licence.replace("LGPL", ""))]
