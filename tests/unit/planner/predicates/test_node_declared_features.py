"""Where no node declares features, no pod needs one; all else is held against the scheduler in tests/parity."""

from tests.builders.fitting import fitting, pending
from tests.builders.rows import NodeRow
from trimtab.planner.model.values import PodRequirements


def test_where_no_node_declares_anything_no_feature_is_required() -> None:
    older = [NodeRow("n1"), NodeRow("n2")]
    assert fitting(pending(PodRequirements(node_features=("F",))), older) == {"n1", "n2"}
