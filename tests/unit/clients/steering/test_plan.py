"""The settings of steering's plans, as the planner reads them, and what becomes of each node."""

from trimtab.clients.steering.marks import nodes_to_keep, nodes_to_release, settings_to_steer
from trimtab.planner.model.settings.scale_down import resolve_scale_down
from trimtab.v1 import plan_pb2


def test_nodes_that_could_not_go_are_checked_again_in_the_next_plan() -> None:
    given = plan_pb2.PlanSettings()
    given.scale_down.utilization_threshold = 0.6
    assert resolve_scale_down(given).recheck_timeout_ns > 0
    settings = resolve_scale_down(settings_to_steer(given))
    assert settings.recheck_timeout_ns == 0
    assert settings == resolve_scale_down(settings_to_steer(settings_to_steer(given)))
    assert not given.scale_down.HasField("unremovable_node_recheck_timeout")


def test_a_time_that_is_set_is_kept() -> None:
    given = plan_pb2.PlanSettings()
    given.scale_down.unremovable_node_recheck_timeout.FromSeconds(30)
    assert settings_to_steer(given) == given


def test_only_nodes_of_the_first_wave_are_released() -> None:
    answer = plan_pb2.PlanResponse()
    answer.nodes.add(node="now", wave=1, fate=plan_pb2.NodeFate.GOES_NOW)
    answer.nodes.add(node="later", wave=2, fate=plan_pb2.NodeFate.GOES_LATER)
    answer.nodes.add(node="used", fate=plan_pb2.NodeFate.STAYS)
    assert nodes_to_release(answer) == {"now"}
    assert nodes_to_keep(answer) == {"later", "used"}
