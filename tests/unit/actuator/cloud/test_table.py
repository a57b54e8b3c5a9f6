"""Whatever lists clouds follows the table of clouds; a cloud is loaded only when it is chosen."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from tests.builders.clouds import WORLDS
from trimtab.actuator.cloud.table import CLOUDS, Cloud, option_classes
from trimtab.common.rpc.extras import EXTRAS, MissingExtraError

ROOT = Path(__file__).resolve().parents[4]
NAMES = [cloud.name for cloud in CLOUDS]
every_cloud = pytest.mark.parametrize("cloud", CLOUDS, ids=NAMES)


@every_cloud
def test_the_entry_of_a_cloud_exists(cloud: Cloud) -> None:
    assert callable(cloud.load())


@every_cloud
def test_the_extras_of_a_cloud_exist(cloud: Cloud) -> None:
    assert set(cloud.extras) <= EXTRAS.keys()


@every_cloud
def test_a_cloud_whose_extra_is_not_installed_names_it(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.common.rpc.extras._is_installed", lambda package: False)
    if not cloud.extras:
        cloud.load()
        return
    with pytest.raises(MissingExtraError, match=f"--cloud {cloud.name} needs the extra {cloud.extras[0]}: pip install"):
        cloud.load()


def test_no_two_options_of_clouds_have_the_same_name() -> None:
    names = [field.name for kind in option_classes() for field in fields(kind)]
    assert len(names) == len(set(names))


def test_every_folder_of_a_cloud_is_in_the_table() -> None:
    folders = {path.parent.name for path in (ROOT / "actuator/cloud").glob("*/__init__.py")}
    assert folders == {*NAMES} - {"memory"}


def test_the_tests_of_all_clouds_run_with_each_of_them() -> None:
    assert [*WORLDS] == NAMES


def test_the_documentation_describes_each_cloud_with_its_own_options() -> None:
    text = (ROOT / "docs/clouds.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)$", text, re.MULTILINE))
    assert [*rows] == NAMES
    shared = [kind for kind in option_classes() if sum(kind in cloud.options for cloud in CLOUDS) > 2]
    for cloud in CLOUDS:
        own = {field.name for kind in cloud.options if kind not in shared for field in fields(kind)}
        shown = {flag.replace("-", "_") for flag in re.findall(r"`--([a-z-]+)[ `]", rows[cloud.name])}
        assert (cloud.name, own - shown) == (cloud.name, set())


def test_lists_of_all_clouds_are_complete() -> None:
    services = (ROOT / "docs/operate.md").read_text(encoding="utf-8")
    assert re.findall(r"`--cloud (\w+(?:\\\|\w+)+)`", services) == ["\\|".join(NAMES)]
    values = (ROOT / "deploy/chart/values.yaml").read_text(encoding="utf-8")
    assert f"# {', '.join(NAMES[1:-1])} or {NAMES[-1]}: docs/clouds.md" in values


def test_only_the_cloud_memory_lies_outside_of_the_actuator() -> None:
    outside = {cloud.name: cloud.module for cloud in CLOUDS if not cloud.module.startswith("trimtab.actuator.cloud.")}
    assert outside == {"memory": "trimtab.clients.simulation.cloud.entry"}


def test_the_command_of_the_actuator_loads_no_simulator_and_no_client_of_a_cloud() -> None:
    program = """
import sys
import trimtab.actuator.service.process
FOREIGN = ("trimtab.clients.simulation", "trimtab.planner", "boto3", "kubernetes", "urllib3")
loaded = [name for name in sys.modules if name.startswith(FOREIGN)]
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
