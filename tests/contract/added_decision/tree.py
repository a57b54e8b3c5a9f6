"""The project as it is once a stranger has added a decision: links to its files, the package, one line in the table,
and the decision's messages in the contract. Everything else is as it is.
"""

import shutil
from pathlib import Path

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from trimtab.v1 import options_pb2, plan_pb2, settings_pb2

ROOT = Path(__file__).resolve().parents[3]
NAME = "headroom"
_INT64, _INT32 = FieldDescriptorProto.TYPE_INT64, FieldDescriptorProto.TYPE_INT32
_STRING, _MESSAGE = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_MESSAGE
_MODULE = """
from google.protobuf import descriptor_pool, duration_pb2, timestamp_pb2
from google.protobuf.internal import builder
from trimtab.v1 import options_pb2, reason_pb2, snapshot_pb2
{imports}
DESCRIPTOR = descriptor_pool.Default().AddSerializedFile({data!r})
builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, "trimtab.v1.{name}", globals())
"""


def add_decision(tree: Path) -> None:
    """Write the tree. What it has of its own comes before the project's on Python's path."""
    link(ROOT / "protos/trimtab", tree / "trimtab", "v1", "planner")
    planner = tree / "trimtab/planner"
    link(ROOT / "planner", planner, "decisions")
    shutil.copytree(Path(__file__).parent / NAME, planner / NAME)
    link(ROOT / "planner/decisions", planner / "decisions", "table.py")
    (planner / "decisions/table.py").write_text(_table(), encoding="utf-8")
    link(ROOT / "protos/trimtab/v1", tree / "trimtab/v1", "plan_pb2.py", "settings_pb2.py")
    _write_module(tree, "settings_pb2", _settings())
    _write_module(tree, "plan_pb2", _contract(), "from trimtab.v1.settings_pb2 import *")


def link(source: Path, target: Path, *but: str) -> None:
    """Link everything in a folder, except for some entries."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.name not in {*but, "__pycache__"}:
            (target / path.name).symlink_to(path)


def _table() -> str:
    """Return the table with one more entry, and its import."""
    text = (ROOT / "planner/decisions/table.py").read_text(encoding="utf-8")
    before, entries = text.split("TABLE: Final[Table] = (", 1)
    return (
        before.replace("\nTable = ", f"\nfrom trimtab.planner.{NAME}.decision import {NAME.upper()}\n\nTable = ", 1)
        + "TABLE: Final[Table] = ("
        + entries.replace(")", f", {NAME.upper()})", 1)
    )


def _write_module(tree: Path, name: str, data: bytes, imports: str = "") -> None:
    text = _MODULE.format(data=data, name=name, imports=imports)
    (tree / f"trimtab/v1/{name}.py").write_text(text, encoding="utf-8")


def _contract() -> bytes:
    """Return the description of plan.proto with the decision's code, state and result."""
    file = FileDescriptorProto.FromString(plan_pb2.DESCRIPTOR.serialized_pb)
    messages = {message.name: message for message in file.message_type}
    messages["Decision"].enum_type[0].value.add(name=NAME.upper(), number=100)
    for owner, kind in (("PlanResponse", "Decision"), ("PlanState", "State")):
        _add_part(messages[owner], file.package, kind)
    result = file.message_type.add(name="HeadroomDecision")
    result.field.add(name="nodes", number=1, type=_MESSAGE, type_name=f".{file.package}.RoomyNode", label=_REPEATED)
    result.field.add(name="detail", number=2, type=_STRING, label=_OPTIONAL)
    _scalars(file.message_type.add(name="RoomyNode"), node=_STRING, free_cpu_milli=_INT64)
    _scalars(file.message_type.add(name="HeadroomState"), layout_version=_INT32, rounds=_INT32)
    return file.SerializeToString()


def _settings() -> bytes:
    """Return the description of settings.proto with those of the decision."""
    file = FileDescriptorProto.FromString(settings_pb2.DESCRIPTOR.serialized_pb)
    _add_part(next(one for one in file.message_type if one.name == "PlanSettings"), file.package, "Settings")
    settings = file.message_type.add(name="HeadroomSettings")
    _scalars(settings, least_cpu_milli=_INT64)
    settings.oneof_decl.add(name="_least_cpu_milli")
    settings.field[0].oneof_index, settings.field[0].proto3_optional = 0, True
    said = options_pb2.Setting(default_value="1000", least=0)
    settings.field[0].options.Extensions[options_pb2.setting].CopyFrom(said)
    return file.SerializeToString()


def _add_part(owner: DescriptorProto, package: str, kind: str) -> None:
    owner.field.add(name=NAME, number=100, type=_MESSAGE, type_name=f".{package}.Headroom{kind}", label=_OPTIONAL)


_OPTIONAL, _REPEATED = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED


def _scalars(message: DescriptorProto, **fields: "FieldDescriptorProto.Type.ValueType") -> None:
    for number, (name, kind) in enumerate(fields.items(), start=1):
        message.field.add(name=name, number=number, type=kind, label=_OPTIONAL)
