"""Which fields of a snapshot are indices of strings is what the contract's comments say."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trimtab.common.deltas.renumbering import STRING_FIELDS, WITH_OWN_DICTIONARY
from trimtab.v1 import snapshot_pb2 as pb

CONTRACT = Path(__file__).parents[4] / "protos/trimtab/v1"
FIELD = re.compile(r"((?:  //[^\n]*\n)+)  (?:repeated |optional )?int32 (\w+) = \d+;")


def messages_below(descriptor: Any, known: set[Any]) -> Iterator[Any]:
    """Yield the messages of rows that have no dictionary of their own."""
    if descriptor in known:
        return
    known.add(descriptor)
    yield descriptor
    for field in descriptor.fields:
        if field.message_type is not None and field.name not in WITH_OWN_DICTIONARY:
            yield from messages_below(field.message_type, known)


def test_each_field_that_the_contract_calls_a_string_index_is_renumbered_and_no_other() -> None:
    files = ("snapshot", "devices", "selectors")
    text = "".join((CONTRACT / f"{name}.proto").read_text(encoding="utf-8") for name in files)
    said = set()
    for descriptor in messages_below(pb.ClusterSnapshot.DESCRIPTOR, set()):
        body = re.search(rf"^message {descriptor.name} {{\n(.*?)^}}", text, re.MULTILINE | re.DOTALL)
        for comment, name in FIELD.findall(body[1] if body else ""):
            words = re.sub(r"\s*//\s*", " ", comment)
            same = re.match(r" As `(\w+)\.(\w+)`", words)
            if re.search(r"[Ss]tring ind(ex|ices)", words) or (same and same.groups() in said):
                said.add((descriptor.name, name))
    assert said == {(one.name, field) for one, fields in STRING_FIELDS.items() for field in fields}
