"""Requests of BalanceScaleUp read field by field, answers set field by field."""

from trimtab.v1 import planner_pb2


def groups_of(request: planner_pb2.BalanceScaleUpRequest) -> list[tuple[str, int, int]]:
    """Return id, size and largest size of each group."""
    return [(one.node_group, one.current_size, one.max_size) for one in request.node_groups]


def ids_ascend(ids: list[str]) -> bool:
    """Return whether ids are in bytewise order, without duplicates."""
    return sorted({one.encode() for one in ids}) == [one.encode() for one in ids]


def splits(rows: list[tuple[str, int, int, int]]) -> planner_pb2.BalanceScaleUpResponse:
    """Return the answer; rows : id, size, new size, largest size."""
    answer = planner_pb2.BalanceScaleUpResponse()
    for name, size, grown, most in rows:
        answer.splits.add(node_group=name, current_size=size, new_size=grown, max_size=most)
    return answer
