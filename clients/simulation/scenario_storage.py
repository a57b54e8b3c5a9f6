"""What a scenario says of storage, and of machines that the cloud takes back. Raises pydantic's ValidationError."""

from typing import Literal, Self

from pydantic import BaseModel, Field, model_validator

from trimtab.clients.simulation.scenario_values import MODEL_CONFIG, Duration, Labels, Name, Quantity


class ReclaimModel(BaseModel):
    """Machines that the cloud takes back, as it does with spot instances. The first entry that matches a node applies.

    A notice comes at a random time: the node is cordoned, as termination handlers do it; when the notice ends, machine
    and node are gone, and controllers create its pods again.
    """

    model_config = MODEL_CONFIG

    node_groups: list[Name] = []
    """Node groups whose machines are taken back; none = all."""
    labels: Labels = {}
    """Labels that a node must have."""
    per_hour: float | None = Field(default=None, gt=0, le=3600, allow_inf_nan=False)
    """Average number of reclaims per hour that a machine runs; or give `meanTime`."""
    mean_time: Duration | None = None
    """Average time from a node's start to its notice; or give `perHour`."""
    notice: Duration = 120.0
    """From the notice to the end of the machine."""
    replace: bool = False
    """Whether the cloud starts another machine at once, as an auto scaling group does; otherwise the group shrinks."""

    @model_validator(mode="after")
    def _has_one_rate(self) -> Self:
        if (self.per_hour is None) == (self.mean_time is None):
            raise ValueError("give either perHour or meanTime")
        if self.mean_time is not None and self.mean_time < 1:
            raise ValueError("meanTime: at least 1s")
        return self

    @property
    def mean_s(self) -> float:
        """Return the average time from a node's start to its notice, seconds."""
        return 3600 / self.per_hour if self.per_hour is not None else self.mean_time or 0.0


class StorageClassModel(BaseModel):
    """A class of volumes. A volume is in one zone, and so is every pod that mounts it."""

    model_config = MODEL_CONFIG

    name: Name
    """Name of the class."""
    binding: Literal["WaitForFirstConsumer", "Immediate"] = "WaitForFirstConsumer"
    """Whether a volume is made where its first pod is scheduled, or at once, in a zone that follows from its name."""
    zones: list[str] = []
    """Zones in which volumes can be; none = every zone of the node groups."""
    driver: Name = "disk.csi.trimtab.dev"
    """Name of the CSI driver, for `attachLimits` of node groups."""


class VolumeModel(BaseModel):
    """A volume of each pod of a StatefulSet. It stays when the pod goes; the pod that follows returns to its zone."""

    model_config = MODEL_CONFIG

    name: Name
    """Name of the volume, and the prefix of the claims' names."""
    storage_class: Name
    """One of `storageClasses`."""
    size: Quantity = "10Gi"
    """Requested size; it limits nothing."""
