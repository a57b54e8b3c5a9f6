"""The pod annotations that the planner reads according to the settings."""

from trimtab.v1 import plan_pb2


def annotations_read(settings: plan_pb2.PlanSettings) -> frozenset[str]:
    """Return the keys of the annotations with numbers that strategies of pod costs name."""
    terms = (term for target in settings.pod_costs.targets for term in target.strategies)
    return frozenset(term.annotation for term in terms if term.annotation)
