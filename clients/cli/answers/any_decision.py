"""The result of a decision that has no renderer of its own: its fields by name, and a table for each list of messages.
Derived from the contract alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message

from trimtab.clients.cli.amounts import some
from trimtab.clients.cli.blocks import Block, Sentence, Style, Table, rows

MOST_ROWS: Final = 10
"""Rows of a table shown without `--verbose`."""
_FLOATS: Final = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)
_WORDS: Final = (FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_MESSAGE, FieldDescriptor.CPPTYPE_ENUM)


def blocks(field: str, result: Message) -> Iterator[Block]:
    """Yield the decision's name, its single values, and its tables."""
    present = result.ListFields()
    heading = words(field).capitalize()
    yield Sentence(heading if present else f"{heading}: nothing to report.", Style.HEADLINE)
    for one, value in present:
        if not _is_list_of_messages(one):
            yield Sentence(f"{words(one.name)}: {_text(one, value)}")
    for table in tables(result):
        yield table._replace(title=f"{heading}: {table.title.lower()}")


def naming(result: Message, name: str) -> Message | None:
    """Return a copy of a result with only those entries of its lists that have a field with this text, None = none."""
    found = type(result)()
    for field, value in result.ListFields():
        if _is_list_of_messages(field):
            rows = [row for row in value if any(text == name for _, text in row.ListFields())]
            getattr(found, field.name).extend(rows)
    return found if found.ListFields() else None


def words(name: str) -> str:
    """Return the name of a field as words."""
    return name.replace("_", " ")


def tables(result: Message) -> Iterator[Table]:
    """Yield each list of messages of a result, with a column for each field that some entry has."""
    for field, entries in result.ListFields():
        if _is_list_of_messages(field):
            columns = _columns(entries)
            texts = tuple(words(column.name) for column in columns if column.is_repeated or column.cpp_type in _WORDS)
            lines = rows([_cells(columns, row) for row in entries])
            title = words(field.name).capitalize()
            yield Table(title, tuple(words(column.name) for column in columns), lines, sentences=texts, most=MOST_ROWS)


def _columns(rows: Sequence[Message]) -> list[FieldDescriptor]:
    """Return the fields that some of the entries have, in the order of the contract."""
    given = {one.name for row in rows for one, _ in row.ListFields()}
    fields: Iterable[Any] = rows[0].DESCRIPTOR.fields
    return [one for one in fields if one.name in given]


def _is_list_of_messages(field: FieldDescriptor) -> bool:
    return field.is_repeated and field.message_type is not None and not _is_map(field)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _cells(columns: Sequence[FieldDescriptor], row: Message) -> list[str]:
    """Return the fields of one entry as texts, "" for absent ones."""
    return [_text(column, getattr(row, column.name)) if _is_given(row, column) else "" for column in columns]


def _is_given(row: Message, field: FieldDescriptor) -> bool:
    return not field.has_presence or row.HasField(field.name)


def _text(field: FieldDescriptor, value: Any) -> str:
    """Return a field's value: the first few of several; a message as JSON."""
    if _is_map(field):
        kind = value.GetEntryClass().DESCRIPTOR.fields_by_name["value"]
        return some([f"{key}: {_single(kind, value[key])}" for key in sorted(value)])
    if field.is_repeated:
        return some([_single(field, one) for one in value])
    return _single(field, value)


def _single(field: FieldDescriptor, value: Any) -> str:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else f"{value}"
    if field.message_type is not None:
        return MessageToJson(value, indent=None, sort_keys=True)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field.cpp_type in _FLOATS:
        return f"{value:g}"
    return f"{len(value)} bytes" if isinstance(value, bytes) else f"{value}"
