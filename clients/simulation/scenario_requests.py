"""ProvisioningRequests of jobs, as scenarios give them."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, Field

from trimtab.clients.simulation.scenario_values import MODEL_CONFIG, Duration

ATOMIC_SCALE_UP: Final = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


def _at_least_a_second(value: float) -> float:
    if value < 1:
        raise ValueError("at least 1s")
    return value


class JobRequestModel(BaseModel):
    """A ProvisioningRequest for each job, whose pods are created once there is room for all of them."""

    model_config = MODEL_CONFIG

    class_name: Literal["best-effort-atomic-scale-up.autoscaling.x-k8s.io", "check-capacity.autoscaling.x-k8s.io"] = (
        Field(default=ATOMIC_SCALE_UP, alias="class")
    )
    """Class of the request: new nodes, or only room that exists."""
    valid_until: Annotated[Duration, AfterValidator(_at_least_a_second)] | None = None
    """How long after its creation room is sought, in whole seconds; by default as the settings say, 7 days."""
