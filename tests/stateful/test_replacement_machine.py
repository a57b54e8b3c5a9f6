"""Replacements under random requests, faults, arrivals, other orders, crashes and time; invariants after every step."""

from hypothesis import HealthCheck, settings

from tests.builders.replacement_machine import ReplacementMachine
from tests.builders.tiers import ALL_DEATHS

ReplacementMachine.TestCase.settings = settings(
    max_examples=200 if ALL_DEATHS else 30,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestReplacementMachine = ReplacementMachine.TestCase
