"""Requirements on labels of nodes."""

import pytest

from trimtab.common.kubernetes.kinds.karpenter import PoolRequirement
from trimtab.common.objects.karpenter.requirements import rules_of


@pytest.mark.parametrize(
    ("operator", "values", "allowed", "refused"),
    [
        ("In", ["a", "b"], ["a"], ["c", None]),
        ("NotIn", ["a"], ["b", None], ["a"]),
        ("Exists", None, ["a"], [None]),
        ("DoesNotExist", None, [None], ["a"]),
        ("Gt", ["4"], ["5", "10"], ["4", "3", "x", None]),
        ("Lt", ["4"], ["3"], ["4", "5", "x", None]),
        ("Gte", ["4"], ["4", "5"], ["3", None]),
        ("Lte", ["4"], ["4", "3"], ["5", None]),
    ],
)
def test_an_operator_allows_values(
    operator: str, values: list[str] | None, allowed: list[str | None], refused: list[str | None]
) -> None:
    rules = rules_of([PoolRequirement("k", operator, values)])
    assert [value for value in [*allowed, *refused] if rules.allows("k", value)] == allowed


def test_requirements_on_one_key_must_all_hold() -> None:
    rules = rules_of([PoolRequirement("k", "In", ["1", "2", "3"]), PoolRequirement("k", "Gt", ["1"])])
    assert rules.values_of("k") == ["2", "3"]
    assert not rules.allows("k", "1")
    assert rules.allows("other", None)
