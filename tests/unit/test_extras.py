"""What needs an extra is asked for only where it is needed: services and commands start without any."""

import subprocess
import sys

import pytest

EXTRAS = ("kubernetes", "urllib3", "psycopg", "opentelemetry.exporter.otlp")
STARTS = (
    "planner.__main__",
    "planner.service.process",
    "actuator.__main__",
    "actuator.service.process",
    "actuator.service.worlds",
    "clients.cli.commands",
    "clients.cli.demo.command",
    "clients.cli.live.commands",
    "clients.planner_client",
    "clients.actuator_client",
    "clients.cluster_generator.__main__",
)
WITHOUT_EXTRAS = """
import importlib, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if any(name == extra or name.startswith(extra + ".") for extra in {extras!r}):
            raise ModuleNotFoundError("No module named " + repr(name))

sys.meta_path.insert(0, Absent())
importlib.import_module({module!r})
"""


@pytest.mark.parametrize("module", STARTS)
def test_a_plain_installation_is_enough_to_start(module: str) -> None:
    program = WITHOUT_EXTRAS.format(extras=EXTRAS, module=module)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
