"""Clouds whose calls fail in a given way, a given number of times, and then succeed.

`FaultyCloud` wraps any `CloudProvider`, `FaultyProvider` is an external provider without network. Kinds: throttled
(nothing was done), lost (done, but no answer), partial (half of it is done or reported), wrong (a refusal after the
change was made, or an empty answer), slow, and late (a change takes effect only before the next call; a read returns
the previous answer).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Final

from trimtab.actuator.cloud.externalgrpc.messages import GROUP_ANNOTATION, filled_options, instance_message, node_bytes
from trimtab.actuator.cloud.provider import CloudError, CloudProvider, CloudRefusedError, GroupOptions, InstanceState
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb

READS: Final = (
    "refresh", "node_groups", "groups_of", "instances", "instance_states", "remember", "was_set", "template",
    "price_per_hour", "options", "activities",
)  # fmt: skip
WRITES: Final = ("delete_instances", "set_size", "decrease_target")
RPC_READS: Final = (
    "GPULabel", "Refresh", "NodeGroups", "NodeGroupForNode", "NodeGroupTargetSize", "NodeGroupNodes",
    "NodeGroupTemplateNodeInfo", "NodeGroupGetOptions", "PricingNodePrice",
)  # fmt: skip
RPC_WRITES: Final = ("NodeGroupDeleteNodes", "NodeGroupIncreaseSize", "NodeGroupDecreaseTargetSize")
KINDS: Final = ("throttled", "lost", "partial", "wrong", "slow", "late")
SLOW_S: Final = 45.0

Do = Callable[..., Any]


class Failing:
    """Calls by name that fail a given number of times."""

    writes: Sequence[str] = ()

    def __init__(self, sleep: Callable[[float], None]) -> None:
        # By operation: the kind, the number of calls that succeed first, and of those that then fail.
        self.faults: dict[str, tuple[str, int, int]] = {}
        self.struck: Counter[str] = Counter()
        self._sleep = sleep
        self._late: list[Callable[[], Any]] = []
        # Latest answers by call.
        self._known: dict[Any, Any] = {}

    def fail(self, operation: str, kind: str, times: int, after: int = 0) -> None:
        """Make calls of an operation fail after `after` successful ones."""
        self.faults[operation] = kind, after, times

    def call(self, operation: str, *args: Any) -> Any:
        """Make a call, or make it fail."""
        for call in self._late:
            with suppress(CloudError):
                call()
        self._late.clear()
        kind, after, times = self.faults.get(operation, ("", 0, 0))
        if after or not times:
            self.faults[operation] = kind, max(0, after - 1), times
            return self._do(operation, args)
        self.faults[operation] = kind, 0, times - 1
        self.struck[operation] += 1
        return self._strike(operation, kind, args)

    def make(self, operation: str, args: Sequence[Any]) -> Any:
        """Make a call without a fault."""
        raise NotImplementedError

    def half_write(self, operation: str, args: Sequence[Any]) -> Any:
        """Make half of a change; return or raise what the caller gets."""
        raise NotImplementedError

    def half_read(self, answer: Any) -> Any:
        """Return the first half of an answer."""
        raise NotImplementedError

    def nothing(self, operation: str, args: Sequence[Any], answer: Any) -> Any:
        """Return the answer of a cloud that has lost its state."""
        raise NotImplementedError

    def _do(self, operation: str, args: Sequence[Any]) -> Any:
        answer = self.make(operation, args)
        self._known[operation, repr(args)] = answer
        return answer

    def _strike(self, operation: str, kind: str, args: Sequence[Any]) -> Any:
        is_write = operation in self.writes
        match kind:
            case "throttled":
                raise CloudError("throttled")
            case "lost":
                self._do(operation, args)
                raise CloudError("timed out")
            case "wrong" if is_write:
                raise CloudRefusedError("nothing is wrong with it")
            case "late" if is_write:
                self._late.append(lambda: self._do(operation, args))
                raise CloudError("timed out")
            case "partial" if is_write:
                return self.half_write(operation, args)
            case "late":
                key = operation, repr(args)
                return self._known[key] if key in self._known else self._do(operation, args)
            case "partial":
                return self.half_read(self._do(operation, args))
            case "wrong":
                return self.nothing(operation, args, self._do(operation, args))
            case _:
                self._sleep(SLOW_S)
                return self._do(operation, args)


class FaultyCloud(Failing):
    """A `CloudProvider` whose calls fail. `remember` makes no call, so it can only be slow."""

    writes = WRITES

    def __init__(self, cloud: CloudProvider, sleep: Callable[[float], None]) -> None:
        super().__init__(sleep)
        self.real = cloud
        self.name, self.gpu_label = cloud.name, cloud.gpu_label
        # Makes no call.
        self.forget = cloud.forget

    def make(self, operation: str, args: Sequence[Any]) -> Any:
        return getattr(self.real, operation)(*args)

    def half_write(self, operation: str, args: Sequence[Any]) -> Any:
        if operation == "delete_instances":
            group, instances = args
            most = (len(instances) + 1) // 2
            failed = dict(self.make(operation, (group, instances[:most])))
            return failed | dict.fromkeys(instances[most:], CloudError("not yet"))
        group, expected, wanted, *token = args
        self.make(operation, (group, expected, (expected + wanted) // 2, *[f"{one}/half" for one in token]))
        raise CloudError("half of it was done")

    def half_read(self, answer: Any) -> Any:
        if isinstance(answer, Mapping):
            return dict(list(answer.items())[: len(answer) // 2])
        return answer[: len(answer) // 2] if isinstance(answer, list) else answer

    def nothing(self, operation: str, args: Sequence[Any], answer: Any) -> Any:
        match operation:
            case "instances":
                return {group: [] for group in args[0]}
            case "instance_states":
                return dict.fromkeys(args[1], InstanceState.UNKNOWN)
            case "was_set":
                return False
            case "options":
                return GroupOptions()
            case "groups_of":
                return {}
            case "node_groups" | "activities":
                return []
            case _:
                return None if operation in ("template", "price_per_hour") else answer


def _method(operation: str) -> Do:
    def method(self: FaultyCloud, *args: Any) -> Any:
        if operation == "remember" and operation in self.faults:
            _, after, times = self.faults[operation]
            self.faults[operation] = "slow", after, times
        return self.call(operation, *args)

    return method


for _name in (*READS, *WRITES):
    setattr(FaultyCloud, _name, _method(_name))


class FaultyProvider(Failing):
    """The calls of an external provider on a cloud, instead of `trimtab.actuator.cloud.externalgrpc.calls.Calls`."""

    writes = RPC_WRITES

    def __init__(self, cloud: CloudProvider, sleep: Callable[[float], None]) -> None:
        super().__init__(sleep)
        self._cloud = cloud
        self._tokens = count()

    def one(self, method: str, request: Any) -> Any:
        """Make one call."""
        return self.call(method, request)

    def many(self, method: str, requests: Sequence[Any]) -> list[Any]:
        """Make one call for each request."""
        return [self.call(method, request) for request in requests]

    def make(self, operation: str, args: Sequence[Any]) -> Any:
        return getattr(self, f"_{operation}")(*args)

    def half_write(self, operation: str, args: Sequence[Any]) -> Any:
        (request,) = args
        half = type(request)()
        half.CopyFrom(request)
        if operation == "NodeGroupDeleteNodes":
            del half.nodes[(len(half.nodes) + 1) // 2 :]
        else:
            half.delta = int(half.delta / 2)
        if operation == "NodeGroupDeleteNodes" or half.delta:
            self.make(operation, (half,))
        raise CloudError("half of it was done")

    def half_read(self, answer: Any) -> Any:
        half = type(answer)()
        half.CopyFrom(answer)
        for name in ("node_groups", "instances"):
            if name in half.DESCRIPTOR.fields_by_name:
                rows = getattr(half, name)
                del rows[len(rows) // 2 :]
        return half

    def nothing(self, operation: str, args: Sequence[Any], answer: Any) -> Any:
        if operation == "NodeGroupTemplateNodeInfo":
            return type(answer)(node_bytes=b"\xff\xff no Node")
        return type(answer)()

    def _GPULabel(self, request: Any) -> Any:
        return pb.GPULabelResponse(label=self._cloud.gpu_label)

    def _Refresh(self, request: Any) -> Any:
        return pb.RefreshResponse()

    def _NodeGroups(self, request: Any) -> Any:
        views = self._cloud.node_groups()
        groups = [pb.NodeGroup(id=one.id, min_size=one.min_size, max_size=one.max_size) for one in views]
        return pb.NodeGroupsResponse(node_groups=groups)

    def _NodeGroupForNode(self, request: Any) -> Any:
        group = self._cloud.groups_of([request.node.provider_id]).get(request.node.provider_id, "")
        return pb.NodeGroupForNodeResponse(node_group=pb.NodeGroup(id=group))

    def _NodeGroupTargetSize(self, request: Any) -> Any:
        return pb.NodeGroupTargetSizeResponse(target_size=self._size(request.id))

    def _NodeGroupNodes(self, request: Any) -> Any:
        found = self._cloud.instances([request.id])[request.id]
        return pb.NodeGroupNodesResponse(instances=[instance_message(one) for one in found])

    def _NodeGroupTemplateNodeInfo(self, request: Any) -> Any:
        template = self._cloud.template(request.id)
        assert template is not None
        return pb.NodeGroupTemplateNodeInfoResponse(node_bytes=node_bytes(template, request.id))

    def _NodeGroupGetOptions(self, request: Any) -> Any:
        options = filled_options(self._cloud.options(request.id), request.defaults)
        return pb.NodeGroupAutoscalingOptionsResponse(node_group_autoscaling_options=options)

    def _PricingNodePrice(self, request: Any) -> Any:
        price = self._cloud.price_per_hour(request.node.annotations[GROUP_ANNOTATION])
        return pb.PricingNodePriceResponse(price=price or 0.0)

    def _NodeGroupIncreaseSize(self, request: Any) -> Any:
        size = self._size(request.id)
        self._cloud.set_size(request.id, size, size + request.delta, f"call {next(self._tokens)}")
        return pb.NodeGroupIncreaseSizeResponse()

    def _NodeGroupDecreaseTargetSize(self, request: Any) -> Any:
        size = self._size(request.id)
        self._cloud.decrease_target(request.id, size, size + request.delta)
        return pb.NodeGroupDecreaseTargetSizeResponse()

    def _NodeGroupDeleteNodes(self, request: Any) -> Any:
        for error in self._cloud.delete_instances(request.id, [one.provider_id for one in request.nodes]).values():
            raise error
        return pb.NodeGroupDeleteNodesResponse()

    def _size(self, group: str) -> int:
        return next(view.target_size for view in self._cloud.node_groups() if view.id == group)
