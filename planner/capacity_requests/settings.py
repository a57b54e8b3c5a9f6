"""Settings of ProvisioningRequests, resolved. Meaning, defaults and ranges are those of the contract."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from trimtab.planner.model.settings import SECOND_NS, ScaleUpSettings, SettingsError, resolve_scale_up
from trimtab.planner.model.settings.reading import resolved, setting
from trimtab.v1 import plan_pb2 as pb

Kind = pb.CapacityClassKind
CHECK_CAPACITY: Final = "check-capacity.autoscaling.x-k8s.io"
ATOMIC_SCALE_UP: Final = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
DEFAULT_CLASSES: Final[Mapping[str, int]] = {
    CHECK_CAPACITY: Kind.CHECK_CAPACITY,
    ATOMIC_SCALE_UP: Kind.ATOMIC_SCALE_UP,
}
_PATH: Final = "capacity_requests"


@dataclass(frozen=True)
class CapacityRequestSettings:
    """ProvisioningRequests, resolved from `PlanSettings`. scale_up : rules of new nodes."""

    enabled: bool = setting("capacity_requests.enabled")
    classes: Mapping[str, int] = field(default_factory=lambda: dict(DEFAULT_CLASSES))
    """The classes that are answered, and the `CapacityClassKind.Code` of each."""
    when_ready: bool = setting("capacity_requests.provisioned_when", lambda code: code == pb.ProvisionedWhen.READY)
    """Requests are provisioned once their nodes are ready, not once these are ordered."""
    booking_s: int = setting("capacity_requests.booking_time", lambda time_ns: -(-time_ns // SECOND_NS))
    """Rounded up."""
    max_seek_s: int = setting("capacity_requests.max_seek_time", lambda time_ns: -(-time_ns // SECOND_NS))
    """Rounded up."""
    processor_instance: str = setting("capacity_requests.processor_instance")
    scale_up: ScaleUpSettings = field(default_factory=ScaleUpSettings)

    def kind(self, class_name: str) -> int:
        """Return the `CapacityClassKind.Code` of a class, UNSPECIFIED if it is not answered."""
        return self.classes.get(class_name, Kind.UNSPECIFIED)


def resolve_capacity_requests(settings: pb.PlanSettings) -> CapacityRequestSettings:
    """Return the settings. Raises SettingsError."""
    classes, scale_up = _classes(settings.capacity_requests), resolve_scale_up(settings)
    return resolved(CapacityRequestSettings, settings, classes=classes, scale_up=scale_up)


def _classes(given: pb.CapacityRequestSettings) -> Mapping[str, int]:
    if not given.classes:
        return dict(DEFAULT_CLASSES)
    found: dict[str, int] = {}
    for at, one in enumerate(given.classes):
        if not one.name:
            raise SettingsError(f"{_PATH}.classes[{at}].name", "it is empty; give the name of a class")
        if one.name in found:
            raise SettingsError(f"{_PATH}.classes[{at}].name", f"{one.name!r} is given twice; give each class once")
        if one.kind not in (Kind.CHECK_CAPACITY, Kind.ATOMIC_SCALE_UP):
            raise SettingsError(f"{_PATH}.classes[{at}].kind", "use CHECK_CAPACITY or ATOMIC_SCALE_UP")
        found[one.name] = one.kind
    return found
