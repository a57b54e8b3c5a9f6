"""Signals of our own."""

from typing import Final

from trimtab.common.kubernetes.signals.signal import (
    ANY,
    PRESENT,
    TRUE,
    Signal,
    SignalValues,
    annotation,
    label,
)

_SELF: Final = "Trimtab"

STEERED: Final = annotation(
    "trimtab.dev/steered",
    "Node",
    SignalValues("the key of an annotation"),
    "the annotation it names comes from a plan and does not influence the next one",
    _SELF,
)
SLACK: Final = annotation(
    "trimtab.dev/slack", "Pod, controllers", ANY, "slack: how many placeholders the workload has", _SELF
)
SLACK_IGNORE: Final = annotation("trimtab.dev/slack-ignore", "Pod", TRUE, "slack: the pod does not count", _SELF)
SLACK_TOGETHER: Final = annotation(
    "trimtab.dev/slack-together", "CapacityBuffer", TRUE, "slack: the buffer's chunks have room all at once", _SELF
)
SLACK_TOPOLOGY_KEY: Final = annotation(
    "trimtab.dev/slack-topology-key",
    "CapacityBuffer",
    SignalValues("the key of a label"),
    "slack: chunks that stay together are in one domain",
    _SELF,
)
SLACK_OF: Final = label("trimtab.dev/slack-of", "Pod", ANY, "written on exported placeholders", _SELF)
SLACK_GANG: Final = label("trimtab.dev/slack-gang", "Pod", ANY, "placeholders of one gang", _SELF)
NODE_GROUP: Final = annotation(
    "trimtab.dev/node-group", "Node", ANY, "the group of a node, from the actuator's cloud providers", _SELF
)
CORDONED: Final = annotation(
    "trimtab.dev/cordoned", "Node", PRESENT, "the actuator has cordoned the node and undoes it", _SELF
)
POD_COST_TIME: Final = annotation(
    "trimtab.dev/pod-cost-time",
    "Pod",
    SignalValues("a time, RFC 3339"),
    "pod costs: when the cost was decided; without it the cost is somebody else's",
    _SELF,
)
POD_COST_UNFINISHED: Final = annotation(
    "trimtab.dev/pod-cost-unfinished", "Pod", TRUE, "pod costs: a change of the group's costs is not finished", _SELF
)
LAST_UPDATED: Final = annotation(
    "trimtab.dev/last-updated", "ConfigMap", SignalValues("a time"), "written on the status ConfigMap", _SELF
)
DELETED_MACHINES: Final = annotation(
    "trimtab.dev/deleted-machines",
    "MachineDeployment, MachinePool",
    SignalValues("uids, with commas"),
    "deletions that the actuator has done",
    _SELF,
)
GROWTH_TOKENS: Final = annotation(
    "trimtab.dev/growth-tokens",
    "MachineDeployment, MachinePool",
    SignalValues("tokens, with commas"),
    "growths that the actuator has done",
    _SELF,
)
PRICE_PER_HOUR: Final = annotation(
    "trimtab.dev/price-per-hour",
    "MachineDeployment, MachinePool",
    SignalValues("a number"),
    "price of the group's node",
    _SELF,
)
KWOK_CAPACITY: Final = annotation(
    "trimtab.dev/kwok-capacity",
    "Node",
    SignalValues("a whole number"),
    "most nodes that the kwok provider has for the group",
    _SELF,
)
GROUP_OPTIONS: Final = annotation(
    "autoscaling-options.trimtab.dev/", "Node", ANY, "options of the group's scale-down, kwok provider", _SELF
)
DEVICE_RESOURCE: Final = label(
    "devices.trimtab.dev/", "Node", ANY, "resources that stand for counted devices, inside plans", _SELF
)
GENERATED_GROUP: Final = label("node.trimtab.dev/group", "Node", ANY, "the group, in generated clusters", _SELF)
GENERATED_POOL: Final = label("node.trimtab.dev/pool", "Node", ANY, "the pool, in generated clusters", _SELF)
RIGHTSIZED_POOL: Final = label("trimtab.dev/pool", "Node", ANY, "the pool that right-sizing recommends", _SELF)

SIGNALS: Final = tuple(row for row in vars().copy().values() if isinstance(row, Signal))
