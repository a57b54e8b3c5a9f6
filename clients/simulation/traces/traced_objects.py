"""A trace of Kubernetes objects: controllers that appear, change their size and go, and pods with their lifetimes.

Times are seconds since the beginning of the trace.
"""

from typing import Any, NamedTuple

Json = dict[str, Any]


class TracedSize(NamedTuple):
    """A controller from a time on. replicas : its number of pods, 0 once it is deleted; template : of pods created from
    now on. A DaemonSet has no number: 1 = it exists.
    """

    at_s: float
    replicas: int
    template: Json


class TracedController(NamedTuple):
    """A controller, with replicas 0 and its first template. sizes : in order of time, the first one its creation."""

    item: Json
    sizes: tuple[TracedSize, ...]


class TracedPod(NamedTuple):
    """A pod that arrives. item : the object; lifetime_s : from when it is ready to its end, None = it stays.

    is_replaced : a Job creates it again if it is evicted; until_s : when it was deleted, None = it was not
    """

    at_s: float
    item: Json
    lifetime_s: float | None = None
    is_replaced: bool = False
    until_s: float | None = None


class TracedObjects(NamedTuple):
    """A whole trace. begin_s : Unix seconds; length_s : to its last event; pods : in order of time, then of name; notes
    : what it contains that is not simulated, for people.
    """

    begin_s: float
    length_s: float
    controllers: tuple[TracedController, ...]
    pods: tuple[TracedPod, ...]
    notes: tuple[str, ...] = ()
