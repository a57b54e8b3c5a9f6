"""The project as it is once a stranger has added two predicates: links to its files, what the two consist of, two lines
in the ordered list, and their reasons in the contract. Everything else is as it is.
"""

import shutil
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tests.contract.added_decision.tree import ROOT, link
from trimtab.v1 import reason_pb2

OWN = Path(__file__).parent
REASONS = {
    "HOST_PORTS_CLOSED": ("OpenPorts", "host ports are closed"),
    "LICENSE_SEATS_TAKEN": ("LicenseSeats", "the seats of its license are taken"),
}
NAMES = {"open_ports": "OPEN_PORTS", "license_seats": "LICENSE_SEATS"}
_MODULE = """
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.internal import builder

DESCRIPTOR = descriptor_pool.Default().AddSerializedFile({data!r})
builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, "trimtab.v1.reason_pb2", globals())
"""


def add_predicates(tree: Path) -> None:
    """Write the tree. What it has of its own comes before the project's on Python's path."""
    link(ROOT / "protos/trimtab", tree / "trimtab", "v1", "planner")
    planner = tree / "trimtab/planner"
    link(ROOT / "planner", planner, "predicates")
    link(ROOT / "planner/predicates", planner / "predicates", "order.py", "kernels")
    link(ROOT / "planner/predicates/kernels", planner / "predicates/kernels")
    shutil.copytree(OWN / "planner", planner / "predicates", dirs_exist_ok=True)
    (planner / "predicates/order.py").write_text(_order(), encoding="utf-8")
    link(ROOT / "protos/trimtab/v1", tree / "trimtab/v1", "reason_pb2.py")
    (tree / "trimtab/v1/reason_pb2.py").write_text(_MODULE.format(data=_contract()), encoding="utf-8")
    link(ROOT / "tests", tree / "tests", "reference")
    link(ROOT / "tests/reference", tree / "tests/reference", "predicates")
    link(ROOT / "tests/reference/predicates", tree / "tests/reference/predicates")
    shutil.copytree(OWN / "reference", tree / "tests/reference/predicates", dirs_exist_ok=True)
    (tree / "tests/added").mkdir()
    shutil.copy(OWN / "unit/agreement.py", tree / "tests/added/test_agreement.py")
    (tree / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")


def _order() -> str:
    """Return the list with one more line for each predicate, and its import."""
    text = (ROOT / "planner/predicates/order.py").read_text(encoding="utf-8")
    imports = "".join(f"from trimtab.planner.predicates.{module} import {name}\n" for module, name in NAMES.items())
    lines = "".join(f"    {name},\n" for name in NAMES.values())
    text = text.replace("\nPREDICATES: Final", f"{imports}\nPREDICATES: Final", 1)
    before, rest = text.split("    SCHEDULING_GATED,\n)", 1)
    return f"{before}    SCHEDULING_GATED,\n{lines}){rest}"


def _contract() -> bytes:
    """Return the description of reason.proto with the reasons, and what is said of them."""
    file = FileDescriptorProto.FromString(reason_pb2.DESCRIPTOR.serialized_pb)
    message = next(one for one in file.message_type if one.name == "PredicateReason")
    values = message.enum_type[0].value
    first = max(value.number for value in values) + 1
    for number, (name, (plugin, clause)) in enumerate(REASONS.items(), start=first):
        value = values.add(name=name, number=number)
        value.options.Extensions[reason_pb2.predicate].plugin = plugin
        value.options.Extensions[reason_pb2.predicate].clause = clause
    return file.SerializeToString()
