"""What the contract says of its reasons for people: the options of enum values in `reason.proto` and `plan.proto`. Written by
hand, beside the generated modules: planner, clients and tests read it here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from trimtab.v1 import options_pb2, reason_pb2


class PredicateTexts(NamedTuple):
    """plugin : the scheduler's Filter plugin, "" if it has none; clause : for one node or many; on_node : for one pod
    and one node; on_new_node : for a new node of a node group."""

    plugin: str
    clause: str
    on_node: str
    on_new_node: str


def clauses(kind: Any) -> Mapping[int, str]:
    """Return the clause of each value of an enumeration, such as `reason_pb2.ScaleDownResult`; "" = it has none."""
    values = kind.Code.DESCRIPTOR.values
    return MappingProxyType({one.number: one.GetOptions().Extensions[options_pb2.clause] for one in values})


def _predicate_texts() -> dict[int, PredicateTexts]:
    found = {}
    for value in reason_pb2.PredicateReason.Code.DESCRIPTOR.values:
        options = value.GetOptions()
        if options.HasExtension(reason_pb2.predicate):
            said = options.Extensions[reason_pb2.predicate]
            texts = (said.clause, said.on_node or said.clause, said.on_new_node or said.clause)
            found[value.number] = PredicateTexts(said.plugin, *texts)
    return found


PREDICATE_TEXTS: Final[Mapping[int, PredicateTexts]] = MappingProxyType(_predicate_texts())
"""By `PredicateReason.Code`."""
NODE_SENTENCES: Final = clauses(reason_pb2.UnremovableReason)
POD_SENTENCES: Final = clauses(reason_pb2.BlockingPodReason)
LIMIT_SENTENCES: Final = clauses(reason_pb2.ReplacementLimit)


def clause_of(name: str) -> str:
    """Return the clause of a reason of a predicate by its name; the name itself if this contract does not know it."""
    known = reason_pb2.PredicateReason.Code.items()
    return next((PREDICATE_TEXTS[number].clause for one, number in known if one == name and number), name)
