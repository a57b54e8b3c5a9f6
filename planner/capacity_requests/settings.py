"""Settings of ProvisioningRequests, resolved: defaults filled in, durations as integers, values checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from trimtab.planner.model.settings import SECOND_NS, ScaleUpSettings, SettingsError, resolve_scale_up
from trimtab.planner.model.settings.reading import duration_ns, flag
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

    enabled: bool = True
    """Whether the decision is taken."""
    classes: Mapping[str, int] = field(default_factory=lambda: dict(DEFAULT_CLASSES))
    """The classes that are answered, and the `CapacityClassKind.Code` of each."""
    when_ready: bool = False
    """Requests are provisioned once their nodes are ready, not once these are ordered. Upstream: ordered."""
    booking_s: int = 600
    """How long room stays booked, seconds. A constant upstream, defaultReservationTime."""
    max_seek_s: int = 7 * 24 * 3600
    """How long room is sought for a request that does not say it, seconds. Upstream: defaultExpirationTime."""
    processor_instance: str = ""
    """Only requests with this parameter are answered. `--check-capacity-processor-instance`."""
    scale_up: ScaleUpSettings = field(default_factory=ScaleUpSettings)

    def kind(self, class_name: str) -> int:
        """Return the `CapacityClassKind.Code` of a class, UNSPECIFIED if it is not answered."""
        return self.classes.get(class_name, Kind.UNSPECIFIED)


def resolve_capacity_requests(settings: pb.PlanSettings) -> CapacityRequestSettings:
    """Return the settings. Raises SettingsError."""
    given = settings.capacity_requests
    return CapacityRequestSettings(
        enabled=flag(given, "enabled", True),
        classes=_classes(given),
        when_ready=given.provisioned_when == pb.ProvisionedWhen.READY,
        booking_s=_seconds(given, "booking_time", CapacityRequestSettings.booking_s),
        max_seek_s=_seconds(given, "max_seek_time", CapacityRequestSettings.max_seek_s),
        processor_instance=given.processor_instance,
        scale_up=resolve_scale_up(settings),
    )


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


def _seconds(given: pb.CapacityRequestSettings, name: str, default_s: int) -> int:
    """Return a duration in seconds, rounded up."""
    found = -(-duration_ns(given, name, default_s * SECOND_NS, _PATH) // SECOND_NS)
    if found < 1:
        raise SettingsError(f"{_PATH}.{name}", "it is 0; use more than 0 s")
    return found
