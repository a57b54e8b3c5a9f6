"""Write the tables of docs/settings.md: every setting with its default, its range, its names in other autoscalers and
what it is. All of it is in the contract: options of fields, and the first sentence of their comments. Usage:
settings_page.py DESCRIPTOR_SET PAGE; `.ci/generate` makes the descriptor set, with comments.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet

from trimtab.setting_options import option_of, setting_paths

BEGIN, END = "<!-- .ci/generate writes from here -->", "<!-- to here -->"
_SENTENCE = re.compile(r".*?[.;:](?=\s|$)", re.DOTALL)
_NAMED = re.compile(r"`(?:([A-Z]\w+)\.)?([a-z][a-z0-9_]*)`")


def comments(files: FileDescriptorSet) -> Mapping[str, str]:
    """Return the comment of each field by its full name, without line breaks."""
    found = {}
    for file in files.file:
        names = dict(_field_places(file))
        for location in file.source_code_info.location:
            name = names.get(tuple(location.path))
            if name:
                found[name] = " ".join(location.leading_comments.split())
    return found


def _field_places(file: FileDescriptorProto) -> Iterator[tuple[tuple[int, ...], str]]:
    def below(message: DescriptorProto, path: tuple[int, ...], name: str) -> Iterator[tuple[tuple[int, ...], str]]:
        for number, field in enumerate(message.field):
            yield (*path, 2, number), f"{name}.{field.name}"

    for number, message in enumerate(file.message_type):
        yield from below(message, (4, number), f"{file.package}.{message.name}")


def meaning(field: FieldDescriptor, texts: Mapping[str, str]) -> str:
    """Return the first sentence of a field's comment, in which settings have their names in a file."""
    comment = texts.get(field.full_name, "")
    first = _SENTENCE.match(comment)
    return _NAMED.sub(_as_in_a_file, (first[0] if first else comment).rstrip(".;:")).replace("|", "\\|")


def _as_in_a_file(named: re.Match[str]) -> str:
    message, name = named.groups()
    if message:
        found = next((path for path, one in setting_paths() if one.full_name == f"trimtab.v1.{message}.{name}"), None)
        return f"`{found}`" if found else named[0]
    return next((f"`{one.json_name}`" for _, one in setting_paths() if one.name == name), named[0])


def span(field: FieldDescriptor) -> str:
    """Return the range of a setting, "" = any."""
    option, unit = option_of(field), " s" if field.message_type is not None else ""
    least = f"{'>' if option.exclusive else '≥'} {option.least:,.10g}{unit}" if option.HasField("least") else ""
    if not option.HasField("most"):
        return least
    return f"{option.least:,.10g} to {option.most:,.10g}" if least else f"≤ {option.most:,.10g}"


def usual(field: FieldDescriptor) -> str:
    """Return the default of a setting as in a file, "" = none."""
    text = option_of(field).default_value
    return f"`{text}`" if text else ""


def rows() -> Iterator[tuple[str, FieldDescriptor]]:
    """Yield the settings and their paths; those of a message that several others have, once, where it is highest."""
    every = [(path, path.rpartition(".")[0], field) for path, field in setting_paths()]
    shown: dict[object, str] = {}
    for _, before, field in sorted(every, key=lambda row: row[1].count(".")):
        shown.setdefault(field.containing_type, before)
    for path, before, field in every:
        if shown[field.containing_type] == before:
            yield path, field


def tables(texts: Mapping[str, str]) -> str:
    """Return a table for each part of the settings."""
    parts, known = [], {path for path, _ in setting_paths()}
    for part, of_part in groupby(rows(), lambda row: row[0].partition(".")[0]):
        lines, in_place = [], dict[str, list[tuple[str, str]]]()
        for path, field in of_part:
            if path == part and field.message_type is not None and not option_of(field).ByteSize():
                continue
            names = ", ".join(f"`{name}`" for name in option_of(field).upstream)
            here, told = path.partition(".")[2] or path, meaning(field, texts)
            replaces = re.fullmatch(r"`([\w.]+)`( during this time.*)?", told)
            if replaces and replaces[1] in known and not (usual(field) or names):
                in_place.setdefault(here.rpartition(".")[0], []).append((here, f"`{replaces[1]}`"))
            else:
                lines.append(f"| `{here}` | {usual(field)} | {span(field)} | {names} | {told} |")
        for of_here in in_place.values():
            here, others = ", ".join(f"`{one}`" for one, _ in of_here), ", ".join(other for _, other in of_here)
            lines.append(f"| {here} |  | as there |  | In place of {others}, for these alone |")
        head = [f"### {part}", "", "| setting | default | range | elsewhere | what it is |", "|---|---|---|---|---|"]
        parts.append("\n".join([*head, *lines]))
    return "\n\n".join(parts)


def main() -> None:
    """Write the part of the page between the two marks."""
    files = FileDescriptorSet.FromString(Path(sys.argv[1]).read_bytes())
    page = Path(sys.argv[2])
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n\n{tables(comments(files))}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
