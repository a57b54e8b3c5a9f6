"""The actuator against a simple model: random requests, faults, arrivals, crashes, passing time; invariants after
every step."""

from hypothesis import HealthCheck, settings

from tests.stateful.stage_machines import ActuatorMachine

ActuatorMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestActuatorMachine = ActuatorMachine.TestCase
