"""The benchmarks can be loaded: the code that they measure exists. They are run by hand, not here."""

from tests.benchmarks.__main__ import load
from tests.benchmarks.registry import SCENARIOS


def test_every_module_of_scenarios_can_be_loaded_and_registers_some() -> None:
    load()
    assert len(SCENARIOS) > 10
