"""Trimtab decides which nodes a Kubernetes cluster needs, and which it can do without.

    import trimtab

    plan = trimtab.plan("cluster.json.gz")
    print(plan)
    for node in plan.removable:
        print(node.name, node.price_per_hour, node.destinations)

`trimtab.v1` is the contract. Everything else is loaded at first use, so importing this package costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab.clients.advice.changes import AdvisedChange
    from trimtab.clients.advice.result import Advice, AdviceReport
    from trimtab.clients.python_api.calls import Client, advise, client, plan
    from trimtab.clients.python_api.calls import InputError, PlannerError
    from trimtab.clients.python_api.plan import PlannedGrowth, PlanResult, RemovableNode, StayingNode
    from trimtab.clients.simulation.simulation import ClusterSimulation as Simulator

__all__ = [
    "Advice",
    "AdviceReport",
    "AdvisedChange",
    "Client",
    "InputError",
    "PlanResult",
    "PlannedGrowth",
    "PlannerError",
    "RemovableNode",
    "Simulator",
    "StayingNode",
    "advise",
    "client",
    "plan",
]
_PLACES = {
    "Advice": "advice.result:Advice",
    "AdviceReport": "advice.result:AdviceReport",
    "AdvisedChange": "advice.changes:AdvisedChange",
    "Client": "python_api.calls:Client",
    "InputError": "python_api.calls:InputError",
    "PlanResult": "python_api.plan:PlanResult",
    "PlannedGrowth": "python_api.plan:PlannedGrowth",
    "PlannerError": "python_api.calls:PlannerError",
    "RemovableNode": "python_api.plan:RemovableNode",
    "Simulator": "simulation.simulation:ClusterSimulation",
    "StayingNode": "python_api.plan:StayingNode",
    "advise": "python_api.calls:advise",
    "client": "python_api.calls:client",
    "plan": "python_api.calls:plan",
}
"""By name, the module of `trimtab.clients` and the object in it."""
_EXTRAS = {"Simulator": ("planner", "actuator")}


if not TYPE_CHECKING:  # a type checker knows all names, and that there are no others

    def __getattr__(name: str) -> Any:
        """Return an object of the Python interface, loaded now. Errors: AttributeError, MissingExtraError."""
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        from trimtab.common.rpc.extras import require_extra

        for extra in _EXTRAS.get(name, ("cli",)):
            require_extra(extra, f"trimtab.{name}")
        module, _, own = _PLACES[name].partition(":")
        found = getattr(import_module(f"trimtab.clients.{module}"), own)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """Return the names of the Python interface too."""
    return sorted({*globals(), *__all__})
