"""Prices from a file for the node groups of a scenario and of its recording."""

from trimtab.clients.cli.group_prices import object_prices, prices_of
from trimtab.clients.cli.label_groups import ZONE
from trimtab.clients.cli.prices import Prices, machine_of
from trimtab.clients.simulation.recorded import RecordedCluster
from trimtab.clients.simulation.scenario import RecordingModel, Scenario
from trimtab.clients.simulation.scenario_file import Trace


def scenario_prices(scenario: Scenario, trace: Trace, prices: Prices) -> Scenario:
    """Return a scenario whose node groups, and those of its recording, have their prices."""
    own = {one.name: {machine_of({ZONE: one.zone, **one.labels})} for one in scenario.node_groups}
    found = prices_of(own, prices)
    groups = [one.model_copy(update={"price": found.get(one.name, one.price)}) for one in scenario.node_groups]
    scenario = scenario.model_copy(update={"node_groups": groups})
    if not isinstance(trace, RecordedCluster):
        return scenario
    recording = scenario.recording or RecordingModel(file="")
    recorded = {**recording.prices, **object_prices(trace.objects, prices)}
    return scenario.model_copy(update={"recording": recording.model_copy(update={"prices": recorded})})
