"""Pages of lists as the API server answers, of Machines only what is used.

Decides the state of a Machine, and which node group it belongs to. Machines come by the ten thousand: what the structs
below do not declare is skipped while it is parsed. Source: Cluster API, `MachineSpec` and `MachineStatus` phases.
"""

from typing import Any, Final, Generic, TypeVar

import msgspec

from trimtab.actuator.cloud.clusterapi.objects import DELETE_MACHINE, OUR_MARK, Machine, early_id
from trimtab.actuator.cloud.provider import Instance, InstanceError, InstanceState
from trimtab.actuator.kube.cluster import ClusterError
from trimtab.actuator.kube.objects import ListMetadata

T = TypeVar("T")


class _Labels(msgspec.Struct, gc=False):
    deployment: str = msgspec.field(default="", name="cluster.x-k8s.io/deployment-name")
    pool: str = msgspec.field(default="", name="cluster.x-k8s.io/pool-name")


class _Annotations(msgspec.Struct, gc=False):
    mark: str | None = msgspec.field(default=None, name=DELETE_MACHINE)


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    labels: _Labels | None = None
    annotations: _Annotations | None = None
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, gc=False):
    provider_id: str | None = msgspec.field(default=None, name="providerID")


class _NodeRef(msgspec.Struct, gc=False):
    name: str = ""


class _Status(msgspec.Struct, rename="camel", gc=False):
    phase: str = ""
    node_ref: _NodeRef | None = None
    failure_reason: str | None = None
    failure_message: str | None = None


class MachineObject(msgspec.Struct, gc=False):
    """A Machine of a list."""

    metadata: _Meta
    spec: _Spec | None = None
    status: _Status | None = None


class Page(msgspec.Struct, Generic[T]):
    """A page of a list."""

    metadata: ListMetadata = msgspec.field(default_factory=ListMetadata)
    items: list[T] | None = None


_NO_LABELS: Final = _Labels()
_NO_SPEC: Final = _Spec()
_NO_STATUS: Final = _Status()
# Of Machines, and of what is a node group or may be one.
MACHINES: Final = msgspec.json.Decoder(Page[MachineObject])
GROUPS: Final = msgspec.json.Decoder(Page[dict[str, Any]])


def read_page(decoder: msgspec.json.Decoder[Page[T]], answer: bytes, what: str) -> Page[T]:
    """Return a page; `what` : was listed. Raises `ClusterError`, which names the place."""
    try:
        return decoder.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ClusterError(f"the API server's answer is not a list of {what}: {error}") from error


def machine_of(item: MachineObject) -> Machine | None:
    """Return the Machine of an object; None = it belongs to no MachineDeployment or MachinePool."""
    meta = item.metadata
    labels = meta.labels or _NO_LABELS
    if labels.deployment:
        group = f"MachineDeployment/{meta.namespace}/{labels.deployment}"
    elif labels.pool:
        group = f"MachinePool/{meta.namespace}/{labels.pool}"
    else:
        return None
    mark = meta.annotations.mark if meta.annotations else None
    # A Machine has no provider id before its infrastructure is there.
    provider_id = (item.spec or _NO_SPEC).provider_id or early_id(meta.namespace, meta.name)
    state, error = _state(meta.deletion_timestamp, item.status or _NO_STATUS)
    instance = Instance(provider_id, state, error)
    return Machine(meta.namespace, meta.name, meta.uid, group, instance, mark is not None, mark == OUR_MARK)


def _state(deleted: str | None, status: _Status) -> tuple[InstanceState, InstanceError | None]:
    if deleted or status.phase in ("Deleting", "Deleted"):
        return InstanceState.DELETING, None
    if status.phase == "Running" or status.node_ref is not None:
        return InstanceState.RUNNING, None
    if status.phase == "Failed" or status.failure_reason:
        code = status.failure_reason or "MachineFailed"
        return InstanceState.CREATING, InstanceError(code, status.failure_message or code)
    return InstanceState.CREATING, None
