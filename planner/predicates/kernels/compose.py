"""All counted predicates together: what the simulation and the placement ask of the counters.

The one place that calls the kernels of each kind. Each kernel here is written from the hooks (`CounterHooks`) of the
kinds, cheapest first (`trimtab.planner.predicates.order.KINDS`), as if by hand, and compiled into its callers; a hook
that a kind lacks is left out. O(terms of the pod) each.
"""

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, cast

import numpy as np

from trimtab.planner.compiled.decorators import copied_kernel, inlined_kernel
from trimtab.planner.predicates.counter_kind import HOOK_NAMES, CounterHooks
from trimtab.planner.predicates.counters import CounterNotes, Counters
from trimtab.planner.predicates.order import KINDS
from trimtab.planner.snapshot.columns import Int32

ADMITTED, FOR_GOOD, FOR_NOW, THIS_POD = (cast(int, np.int64(n)) for n in range(4))
"""How a node refuses a pod while pods are only added: not at all; its whole class, permanently; its class, until
counters elsewhere change; only this pod."""
_NONE: Final = cast(int, np.int64(-1))
_SAME: Final = r"\g<0>"
_TUPLES: Final = re.compile(r"\b(?:counters|notes)\b")
_OF_CLASS, _OF_POD = "counters, pod_class, node", "counters, pod, node"
_NOTED: Final = "counters, notes, pod_class"


class Composer:
    """Writes kernels over all kinds. hooks : by field of `Counters`, in the order of the calls."""

    def __init__(self, hooks: Mapping[str, CounterHooks]) -> None:
        self._hooks = hooks

    def call_each(self, hook: str, parameters: str) -> str:
        """Return a kernel that calls the hook of each kind."""
        return self._kernel(hook, parameters, [f"    {call}" for call in self._calls(hook, parameters)], "")

    def any_of(self, hook: str, parameters: str) -> str:
        """Return a kernel that returns whether the hook of some kind is true; the next is called if one is not."""
        *calls, last = self._calls(hook, parameters) or ["False"]
        return self._kernel(hook, parameters, [f"    if {call}:\n        return True" for call in calls], last)

    def any_after_all(self, hook: str, parameters: str) -> str:
        """Return a kernel that calls the hook of each kind, and returns whether some is true."""
        lines = [f"    found = {call} or found" for call in self._calls(hook, parameters)]
        return self._kernel(hook, parameters, ["    found = False", *lines], "found")

    def because(self) -> str:
        """Return a kernel that joins the masks of both hooks of all kinds."""
        calls = [*self._calls("because", _OF_CLASS), *self._calls("because_own", _OF_POD)]
        return self._kernel(
            "because", "counters, pod, pod_class, node", ["    mask = 0", *(f"    mask |= {c}" for c in calls)], "mask"
        )

    def refusal(self) -> str:
        """Return a kernel that returns the most lasting refusal; among equals, the cheapest check comes first."""
        lines = []
        for hook, parameters, kind in (
            ("refuses_for_good", _OF_CLASS, "FOR_GOOD"),
            ("refuses_for_now", _OF_CLASS, "FOR_NOW"),
            ("refuses_pod", _OF_POD, "THIS_POD"),
        ):
            lines += [f"    if {call}:\n        return {kind}" for call in self._calls(hook, parameters)]
        return self._kernel("refusal", "counters, pod, pod_class, node", lines, "ADMITTED")

    def only(self, hook: str, parameters: str, otherwise: str) -> str:
        """Return a kernel that calls the hook of the only kind that has it."""
        calls = self._calls(hook, parameters)
        return self._kernel(hook, parameters, [], calls[0] if calls else otherwise)

    def names(self) -> dict[str, Any]:
        """Return the kernels of the kinds by the names under which the written ones call them."""
        listed = ((field, hook, getattr(hooks, hook)) for field, hooks in self._hooks.items() for hook in HOOK_NAMES)
        return {f"{field}_{hook}": kernel for field, hook, kernel in listed if kernel is not None}

    def _calls(self, hook: str, parameters: str) -> list[str]:
        """Return the call of the hook of each kind that has it, such as `spread_forget(counters.spread, notes.spread,
        pod_class)`."""
        having = [field for field, hooks in self._hooks.items() if getattr(hooks, hook) is not None]
        return [f"{field}_{hook}({_TUPLES.sub(f'{_SAME}.{field}', parameters)})" for field in having]

    def _kernel(self, name: str, parameters: str, lines: list[str], result: str) -> str:
        return "\n".join([f"def {name}({parameters}):", *lines, f"    return {result}", ""])

    def source(self) -> str:
        """Return the source of all kernels."""
        return "\n".join(
            (
                self.call_each("count", "counters, pod_class, node, sign"),
                self.call_each("count_own", "counters, pod, node, sign"),
                self.any_of("has_own", "counters, pod"),
                self.call_each("prefetch_own", "counters, pod"),
                self.refusal(),
                self.because(),
                self.call_each("move_node", "counters, node, sign, stays"),
                self.call_each("move_shared_domains", "counters, node, sign"),
                self.call_each("look_like", "counters, node, like"),
                self.any_of("may_need_others", "counters, pod_class"),
                self.any_of("excludes_pods", "counters, pod_class"),
                self.any_of("starts_on_one_node", "counters, pod_class"),
                self.any_of("is_refused_in_domains", _OF_CLASS),
                self.call_each("forget", _NOTED),
                self.any_after_all("may_pass_again", _NOTED),
                self.call_each("note_failure", _NOTED),
                self.any_of("may_fit_now", _NOTED),
                self.only("chained_limit", "counters, chain, pod_class", "_NONE"),
                self.only("row_of_limit", "counters, limit", "_NONE"),
                self.only("excludes_domain", "counters, limit, domain", "False"),
            )
        )


def composed(hooks: Mapping[str, CounterHooks]) -> dict[str, Any]:
    """Return the functions over all kinds by name, not compiled. hooks : by field of `Counters`, in the order of calls.

    They call nothing but the kernels of the hooks, by which cached code knows whether it is still theirs.
    """
    composer = Composer(hooks)
    space = composer.names() | {"__name__": __name__}
    space |= {"ADMITTED": ADMITTED, "FOR_GOOD": FOR_GOOD, "FOR_NOW": FOR_NOW, "THIS_POD": THIS_POD, "_NONE": _NONE}
    # The name of this file, beside which compiled code is cached.
    exec(compile(composer.source(), __file__, "exec"), space)
    return space


def hooks_of(field: str) -> CounterHooks:
    """Return the hooks of a kind, in the module of its kernels."""
    hooks: CounterHooks = import_module(f"{__package__}.{field}").HOOKS
    return hooks


_FUNCTIONS: Final = composed({kind.field: hooks_of(kind.field) for kind in KINDS})

count: Callable[[Counters, int, int, int], None] = copied_kernel(_FUNCTIONS["count"])
"""(counters, pod_class, node, sign) Count `sign` pods of a class on a node; a negative number takes them off."""

count_own: Callable[[Counters, int, int, int], None] = copied_kernel(_FUNCTIONS["count_own"])
"""(counters, pod, node, sign) Count what a pod has of its own on a node (sign 1), or take it off (sign -1)."""

is_unlike_its_class: Callable[[Counters, int], bool] = inlined_kernel(_FUNCTIONS["has_own"])
"""(counters, pod) Return whether a pod is treated by what it has of its own, not by its class alone. O(1)."""

prefetch_own: Callable[[Counters, int], None] = copied_kernel(_FUNCTIONS["prefetch_own"])
"""(counters, pod) Load what tells whether a pod is unlike its class into the processor's cache."""

refusal: Callable[[Counters, int, int, int], int] = copied_kernel(_FUNCTIONS["refusal"])
"""(counters, pod, pod_class, node) Return how a node refuses a pod: the most lasting way."""

because: Callable[[Counters, int, int, int], int] = copied_kernel(_FUNCTIONS["because"])
"""(counters, pod, pod_class, node) Return the mask `1 << PredicateReason.Code` of the predicates for which a node
refuses a pod; 0 = none."""

move_node: Callable[[Counters, int, int, int], None] = copied_kernel(_FUNCTIONS["move_node"])
"""(counters, node, sign, stays) Let a node join the topology (sign 1) or leave it (sign -1): for the predicates that
ignore a cordoned node (stays 0), or for those that count it still (stays 1)."""

move_shared_domains: Callable[[Counters, int, int], None] = copied_kernel(_FUNCTIONS["move_shared_domains"])
"""(counters, node, sign) Let the domains that a closed node would share with others count (sign 1), or no longer (sign
-1)."""

look_like: Callable[[Counters, int, int], None] = copied_kernel(_FUNCTIONS["look_like"])
"""(counters, node, like) Copy a template's columns from one node to another, which keeps its name. O(node sets +
topology rows)."""

may_need_others: Callable[[Counters, int], bool] = inlined_kernel(_FUNCTIONS["may_need_others"])
"""(counters, pod_class) Return whether the placement of a class can need other pods at their places. O(1)."""

excludes_pods: Callable[[Counters, int], bool] = inlined_kernel(_FUNCTIONS["excludes_pods"])
"""(counters, pod_class) Return whether other pods on a node, its own kind maybe among them, can keep a class out of it.
O(1)."""

starts_on_one_node: Callable[[Counters, int], bool] = copied_kernel(_FUNCTIONS["starts_on_one_node"])
"""(counters, pod_class) Return whether all pods of a class have to be on one node, and none has a place. O(affinity
terms)."""

is_refused_in_domains: Callable[[Counters, int, int], bool] = copied_kernel(_FUNCTIONS["is_refused_in_domains"])
"""(counters, pod_class, node) Return whether a class is refused in the domains that a node shares with others."""

forget: Callable[[Counters, CounterNotes, int], None] = copied_kernel(_FUNCTIONS["forget"])
"""(counters, notes, pod_class) Forget what was noted when nodes that refuse a class for now were skipped."""

may_pass_again: Callable[[Counters, CounterNotes, int], bool] = copied_kernel(_FUNCTIONS["may_pass_again"])
"""(counters, notes, pod_class) Return whether nodes that were skipped may admit a class now; note the counters of this
moment."""

note_failure: Callable[[Counters, CounterNotes, int], None] = copied_kernel(_FUNCTIONS["note_failure"])
"""(counters, notes, pod_class) Note the counters on which it depends that no node admits a class."""

may_fit_now: Callable[[Counters, CounterNotes, int], bool] = copied_kernel(_FUNCTIONS["may_fit_now"])
"""(counters, notes, pod_class) Return whether a class that no node admitted should be tried again."""

chained_limit: Callable[[Counters, Int32, int], int] = copied_kernel(_FUNCTIONS["chained_limit"])
"""(counters, chain, pod_class) Return the first constraint of a class that excludes whole domains of a row with
chain[row] >= 0; -1 = none. chain : int32[rows]."""

row_of_limit: Callable[[Counters, int], int] = copied_kernel(_FUNCTIONS["row_of_limit"])
"""(counters, limit) Return the topology row of a constraint."""

excludes_domain: Callable[[Counters, int, int], bool] = copied_kernel(_FUNCTIONS["excludes_domain"])
"""(counters, limit, domain) Return whether a constraint excludes a domain."""
