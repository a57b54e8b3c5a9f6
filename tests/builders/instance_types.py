"""Published facts about instance types: the clouds' descriptions, and the resources of real nodes.

- `AWS`: vCPUs, GiB and pods by addresses from DescribeInstanceTypes, and the bytes of memory that Karpenter's authors
  measured to be missing on nodes (aws/karpenter-provider-aws, `zz_generated.memory_overhead.go` at 15e8769). What a
  node of EKS reserves follows from amazon-eks-ami: 255 MiB and 11 for each pod, 100 MiB of eviction; of the cores 6, 1,
  0.5, 0.5 and then 0.25 %.
- `NODES`: capacity and allocatable of nodes in use, by kubectl (2i2c-org/infrastructure, `node-capacity-info.json` at
  1097ae3 and bc56515), with the GiB of their clouds' documentation.
"""

from typing import Final, NamedTuple

from trimtab.actuator.cloud.provider import MachineType, Reservation
from trimtab.actuator.tracker.states import NodeAmounts, SeenType

MIB: Final = 1 << 20
AWS: Final[dict[str, dict[str, tuple[int, float, int, int]]]] = {
    "m4": {
        "large": (2, 8, 20, 278482944),
        "xlarge": (4, 16, 58, 425283584),
        "2xlarge": (8, 32, 58, 718897152),
        "4xlarge": (16, 64, 234, 1333485568),
        "16xlarge": (64, 256, 234, 4454281216),
    },
    "r4": {
        "large": (2, 15.25, 29, 412696576),
        "xlarge": (4, 30.5, 58, 693727232),
        "2xlarge": (8, 61, 58, 1255772160),
        "4xlarge": (16, 122, 234, 2306580480),
        "8xlarge": (32, 244, 234, 4454129664),
        "16xlarge": (64, 488, 737, 8346714112),
    },
    "m5": {
        "large": (2, 8, 29, 585805824),
        "xlarge": (4, 16, 58, 909246464),
        "2xlarge": (8, 32, 58, 1203826688),
        "4xlarge": (16, 64, 234, 2849939456),
        "8xlarge": (32, 128, 234, 5336875008),
        "12xlarge": (48, 192, 234, 5808451584),
        "16xlarge": (64, 256, 737, 7525875712),
        "24xlarge": (96, 384, 737, 11086274560),
    },
    "c5": {
        "large": (2, 4, 29, 453677056),
        "xlarge": (4, 8, 58, 586280960),
        "2xlarge": (8, 16, 58, 910217216),
        "4xlarge": (16, 32, 234, 1558085632),
        "9xlarge": (36, 72, 234, 3691565056),
        "12xlarge": (48, 96, 234, 4097130496),
        "18xlarge": (72, 144, 737, 7053815808),
        "24xlarge": (96, 192, 737, 7864954880),
    },
    "r5": {
        "large": (2, 16, 29, 732602368),
        "xlarge": (4, 32, 58, 1202855936),
        "2xlarge": (8, 64, 58, 2143367168),
        "4xlarge": (16, 128, 234, 3923714048),
        "8xlarge": (32, 256, 234, 7585087488),
        "12xlarge": (48, 384, 234, 11143704576),
        "16xlarge": (64, 512, 737, 14639546368),
        "24xlarge": (96, 768, 737, 21756776448),
    },
    "m5a": {
        "large": (2, 8, 29, 539660288),
        "xlarge": (4, 16, 58, 819068928),
        "2xlarge": (8, 32, 58, 1377890304),
        "4xlarge": (16, 64, 234, 2495520768),
        "8xlarge": (32, 128, 234, 4661731328),
        "12xlarge": (48, 192, 234, 6928617472),
        "16xlarge": (64, 256, 737, 9195491328),
        "24xlarge": (96, 384, 737, 13729243136),
    },
    "m6i": {
        "large": (2, 8, 29, 424321024),
        "xlarge": (4, 16, 58, 703729664),
        "2xlarge": (8, 32, 58, 1262546944),
        "4xlarge": (16, 64, 234, 2380177408),
        "8xlarge": (32, 128, 234, 4514795520),
        "12xlarge": (48, 192, 234, 6750072832),
        "16xlarge": (64, 256, 737, 8884686848),
        "24xlarge": (96, 384, 737, 12969508864),
        "32xlarge": (128, 512, 737, 17238757376),
    },
    "c6i": {
        "large": (2, 4, 29, 285917184),
        "xlarge": (4, 8, 58, 424804352),
        "2xlarge": (8, 16, 58, 704696320),
        "4xlarge": (16, 32, 234, 1264484352),
        "8xlarge": (32, 64, 234, 2384064512),
        "12xlarge": (48, 96, 234, 3453304832),
        "16xlarge": (64, 128, 737, 4522545152),
        "24xlarge": (96, 192, 737, 6577295360),
        "32xlarge": (128, 256, 737, 8715804672),
    },
    "r6i": {
        "large": (2, 16, 29, 703246336),
        "xlarge": (4, 32, 58, 1261580288),
        "2xlarge": (8, 64, 58, 2378240000),
        "4xlarge": (16, 128, 234, 4510916608),
        "8xlarge": (32, 256, 234, 8876937216),
        "12xlarge": (48, 384, 234, 13142290432),
        "16xlarge": (64, 512, 737, 17407643648),
        "24xlarge": (96, 768, 737, 25753948160),
        "32xlarge": (128, 1024, 737, 34284670976),
    },
    "m6g": {
        "medium": (1, 4, 8, 309780480),
        "large": (2, 8, 29, 473333760),
        "xlarge": (4, 16, 58, 802529280),
        "2xlarge": (8, 32, 58, 1458831360),
        "4xlarge": (16, 64, 234, 2773532672),
        "8xlarge": (32, 128, 234, 5302267904),
        "12xlarge": (48, 192, 234, 7931666432),
        "16xlarge": (64, 256, 737, 10460397568),
    },
}
"""By family and size: vCPUs, GiB, pods, bytes that nodes lack."""


class RealNode(NamedTuple):
    """A node in use: cpu, GiB and pods by its cloud; capacity and allocatable memory in bytes."""

    cpu: int
    gib: float
    pods: int
    memory: int
    allocatable_milli: int
    allocatable_memory: int


NODES: Final[dict[str, RealNode]] = {
    "r5.xlarge": RealNode(4, 32, 58, 33164840960, 3920, 32123604992),
    "r5.4xlarge": RealNode(16, 128, 234, 133523050496, 15890, 130451771392),
    "r5.16xlarge": RealNode(64, 512, 737, 535122860310, 63770, 526249457876),
    "r7i.xlarge": RealNode(4, 32, 58, 33089273856, 3920, 32048037888),
    "r7i.4xlarge": RealNode(16, 128, 234, 132918992896, 15890, 129847705600),
    "n1-highmem-4": RealNode(4, 26, 110, 27328200704, 3920, 23829102592),
    "n2-highmem-4": RealNode(4, 32, 110, 33669926912, 3920, 29783904256),
    "n2-highmem-16": RealNode(16, 128, 110, 135074349056, 15890, 125132800000),
    "n2-highmem-32": RealNode(32, 256, 110, 270473359360, 31850, 257783492608),
    "n2-standard-16": RealNode(16, 64, 110, 67428651008, 15890, 61481127936),
    "n2-standard-64": RealNode(64, 256, 110, 270450806784, 63770, 257760940032),
}


def aws_machine(name: str) -> MachineType:
    """Return an instance type as AWS describes it."""
    family, _, size = name.partition(".")
    cpu, gib, pods, _ = AWS[family][size]
    return MachineType(name, cpu * 1000, int(gib * 1024) * MIB, pods, Reservation.EKS)


def aws_seen(name: str, group: str = "g") -> SeenType:
    """Return the resources that nodes of an instance type report on EKS."""
    machine = aws_machine(name)
    family, _, size = name.partition(".")
    cpu, _, pods, missing = AWS[family][size]
    memory = machine.memory_bytes - missing
    reserved = 60 + 10 * (cpu > 1) + 5 * (min(cpu, 4) - 2 if cpu > 2 else 0) + 2.5 * max(0, cpu - 4)
    left = NodeAmounts(int(cpu * 1000 - reserved), memory - (355 + 11 * pods) * MIB, pods)
    return SeenType(group, name, nominal(machine), NodeAmounts(cpu * 1000, memory, pods), left)


def real_machine(name: str, reservation: Reservation = Reservation.KUBELET) -> MachineType:
    """Return the machine of a node in use."""
    node = NODES[name]
    return MachineType(name, node.cpu * 1000, int(node.gib * 1024) * MIB, node.pods, reservation)


def real_seen(name: str, group: str = "g") -> SeenType:
    """Return the resources that a node in use reports."""
    node = NODES[name]
    capacity = NodeAmounts(node.cpu * 1000, node.memory, node.pods)
    allocatable = NodeAmounts(node.allocatable_milli, node.allocatable_memory, node.pods)
    return SeenType(group, name, nominal(real_machine(name)), capacity, allocatable)


def nominal(machine: MachineType) -> NodeAmounts:
    """Return the cloud's description of a machine."""
    return NodeAmounts(machine.cpu_milli, machine.memory_bytes, machine.pods)
