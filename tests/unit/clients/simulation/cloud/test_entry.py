"""The cloud `memory` opens its cluster from files once, and from its database afterwards."""

import json
from contextlib import ExitStack, closing
from pathlib import Path

from tests.builders.kubernetes import listed, node
from trimtab.actuator.cloud.table import MachineOptions, Opening, OptionSections, SimulationOptions
from trimtab.clients.simulation.cloud.entry import open_cluster, wire
from trimtab.clients.simulation.cluster.controllers import Delays


def test_files_of_a_simulated_cluster_are_read_the_first_time_only(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(listed(node("n1"))))
    with closing(open_cluster(tmp_path, [file], Delays())) as first:
        assert (first.restored, list(first.state.nodes)) == (False, ["n1"])
    file.write_text("no cluster any more")
    with closing(open_cluster(tmp_path, [file], Delays())) as again:
        assert (again.restored, list(again.state.nodes)) == (True, ["n1"])


def test_an_actuator_gets_the_cluster_its_cloud_and_the_service_that_shows_it(tmp_path: Path) -> None:
    with ExitStack() as stack:
        own = wire(Opening(OptionSections(), tmp_path, stack))
        assert (own.provider.name, own.provider.node_groups(), own.cluster.list_nodes()) == ("memory", [], [])
        assert [one.name for one in own.registrations] == ["trimtab.v1.EmbeddedCluster"]


def test_the_options_of_the_command_line_begin_with_the_delays_of_the_cluster() -> None:
    simulation, machines, delays = SimulationOptions(), MachineOptions(), Delays()
    assert (simulation.pod_start, simulation.pod_stop) == (delays.pod_start_s, delays.pod_stop_s)
    assert (machines.node_start, machines.instance_delete) == (delays.node_start_s, delays.instance_delete_s)
