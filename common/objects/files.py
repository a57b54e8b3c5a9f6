"""Reads files into a snapshot: Kubernetes objects as JSON or YAML, plain or gzipped, or one recording.

The content of a file decides what it is, not its name. The only module of this package that reads files.
Cost: 150,000 pods of JSON take about four seconds and 0.5 GiB, more pods in proportion; YAML takes about ten times as
long to parse.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any

from trimtab.common.deltas import Application
from trimtab.common.documents.bounded_input import (
    MAX_INPUT_BYTES,
    STANDARD_INPUT,
    DamagedInputError,
    InputSizeError,
    open_input,
    read_bounded,
)
from trimtab.common.documents.loading import DocumentError, NotADocumentError, load_documents
from trimtab.common.kubernetes.object_errors import InvalidInputError
from trimtab.common.objects.build import BuiltSnapshot, Progress, build_snapshot
from trimtab.common.objects.decode import add_text, add_value
from trimtab.common.objects.karpenter.offers import MachineOffer
from trimtab.common.objects.objects import Objects
from trimtab.common.recording import RecordingError, RecordingReader, is_recording
from trimtab.common.rpc.collection import collection_paused
from trimtab.v1.snapshot_pb2 import ClusterSnapshot, SnapshotDelta

_RAISE_LIMIT = "raise the limit with --max-input-bytes"
_READ_SHARE = 0.7
"""Approximate share of reading in the whole work; building takes the rest."""
_SCALE = 1_000_000
_PEEK = 4096
_SMALL = 64
"""Longest remainder of a text, in bytes, that is checked for being white space only."""


def read_files(
    paths: Sequence[str | PathLike[str]],
    progress: Progress | None = None,
    max_bytes: int = MAX_INPUT_BYTES,
    numbers: Iterable[str] = (),
    offers: Sequence[MachineOffer] | None = None,
) -> BuiltSnapshot:
    """Return the snapshot of the cluster that the files together describe; "-" is standard input.

    progress : called with (done, total) in one unit for all the work; max_bytes : most bytes of one file, unpacked;
    numbers : keys of the pods' annotations that hold numbers (`PodTable.number`); offers : machines that NodePools may
    have, None = those of the nodes.
    Errors: InputError or a subclass, for a file that cannot be read or is too large, is neither Kubernetes objects nor
    a recording, or has a broken object; the message says what to do.
    """
    if not paths:
        raise InvalidInputError("no file is given; give what `kubectl get -o json` or `-o yaml` prints, or a recording")
    with collection_paused():
        content = _read(paths, _part(progress, 0.0, _READ_SHARE), max_bytes, numbers)
        after = _part(progress, _READ_SHARE, 1.0)
        if isinstance(content, Objects):
            content = build_snapshot(content, lambda done, total: after(done / total), offers)
        after(1.0)
    return content


def read_objects(paths: Iterable[str | PathLike[str]], max_bytes: int = MAX_INPUT_BYTES) -> Objects:
    """Return the objects of several files. Errors: as `read_files`, and InputError for a recording."""
    content = _read(list(paths), _part(None, 0.0, 1.0), max_bytes)
    if not isinstance(content, Objects):
        raise InvalidInputError("a recording cannot be used here; give Kubernetes objects")
    return content


def _read(
    paths: Sequence[str | PathLike[str]], advance: Callable[[float], None], max_bytes: int, numbers: Iterable[str] = ()
) -> Objects | BuiltSnapshot:
    """Return the objects of all files, or the content of a recording. Each file is opened once: it may be a pipe."""
    files = [Path(path) for path in paths]
    if files.count(STANDARD_INPUT) > 1:
        raise InvalidInputError("standard input (-) is given twice; give it once")
    objects = Objects(numbers=tuple(sorted(set(numbers))))
    sizes = [_size(file) for file in files]
    total, before = sum(sizes) or 1, 0
    for path, size in zip(files, sizes, strict=True):
        start = before

        def within(share: float, start: int = start, size: int = size) -> None:
            advance((start + share * size) / total)

        with _reading(path), open_input(path) as file:
            if is_recording(file.peek(4)):
                if len(files) > 1:
                    raise InvalidInputError(f"{path} is a recording, which is a whole cluster; give it alone")
                return _read_recording(file, path, max_bytes)
            data = read_bounded(file, max_bytes)
        _add_content(_as_utf8(data), shown(path), objects, within)
        before += size
        within(1.0)
    return objects


def shown(path: Path) -> str:
    """Return the name of a file in messages."""
    return "standard input" if path == STANDARD_INPUT else str(path)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Add the name of the file to errors of reading it."""
    try:
        yield
    except InputSizeError as error:
        raise InvalidInputError(f"{shown(path)}: {error}; if it is as large as it should be, {_RAISE_LIMIT}") from None
    except DamagedInputError as error:
        raise InvalidInputError(f"{shown(path)}: {error}; copy it again") from None
    except OSError as error:
        raise _unreadable(path, error) from None


def _read_recording(file: IO[bytes], path: Path, max_bytes: int) -> BuiltSnapshot:
    """Return the last cluster in a recording: its last whole one, with all changes after it. Errors: InputError."""
    snapshot: ClusterSnapshot | None = None
    deltas: list[SnapshotDelta] = []
    snapshot_count = kept_bytes = 0
    try:
        reader = RecordingReader(shown(path), file, max_bytes)
        for frame in reader:
            which = frame.WhichOneof("frame")
            if which == "snapshot":
                snapshot, deltas, kept_bytes = frame.snapshot, [], 0
            elif which == "delta":
                deltas.append(frame.delta)
            snapshot_count += which in ("snapshot", "delta")
            kept_bytes += reader.frame_bytes if which in ("snapshot", "delta") else 0
            if kept_bytes > max_bytes:
                raise InputSizeError(f"unpacked, its last cluster and the changes after it are {kept_bytes} bytes")
    except RecordingError as error:
        raise InvalidInputError(str(error)) from None
    if snapshot is None:
        raise InvalidInputError(f"{shown(path)}: the recording holds no whole cluster; record again")
    notes = [] if reader.complete else [f"{shown(path)} was not closed: its last loops may be missing"]
    if snapshot_count > 1:
        notes.append(f"{shown(path)} holds a cluster at {snapshot_count} moments; this is the last")
    return BuiltSnapshot(_brought_forward(path, snapshot, deltas), notes)


def _brought_forward(path: Path, snapshot: ClusterSnapshot, deltas: list[SnapshotDelta]) -> ClusterSnapshot:
    if not deltas:
        return snapshot
    try:
        cluster = Application(snapshot)
        for delta in deltas:
            cluster.add(delta)
    except (ValueError, IndexError) as error:
        problem = f"its changes do not fit the cluster before them ({error})"
        raise InvalidInputError(f"{shown(path)}: {problem}; record again") from None
    return cluster.result()


def _size(file: Path) -> int:
    """Return the size of a file; 0 for a pipe, whose size is unknown."""
    if file == STANDARD_INPUT:
        return 0
    try:
        return file.stat().st_size
    except OSError as error:
        raise _unreadable(file, error) from None


def _as_utf8(data: bytes) -> bytes:
    """Return a text encoded as UTF-8, without a byte order mark."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        data = data.decode("utf-16", errors="replace").encode()
    return data.removeprefix(b"\xef\xbb\xbf")


def _add_content(data: bytes, file: str, objects: Objects, advance: Callable[[float], None]) -> None:
    first = (data[:_PEEK].lstrip() or data.lstrip())[:1]
    if not first:
        raise InvalidInputError(
            f"{file}: it is empty; give what `kubectl get -o json` or `-o yaml` prints, or a recording"
        )
    if first == b"{":
        _add_json(data, file, objects, advance)
    else:
        _add_yaml(data, file, objects)


def _add_json(data: bytes, file: str, objects: Objects, advance: Callable[[float], None]) -> None:
    """Add every document of a text: several kubectl calls give several, JSON Lines has one per line."""
    rest = memoryview(data)
    while rest:
        start = len(data) - len(rest)

        def within(share: float, start: int = start, size: int = len(rest)) -> None:
            advance((start + share * size) / len(data))

        rest = rest[add_text(data if start == 0 else rest, file, objects, within) :]
        if len(rest) < _SMALL and not bytes(rest).strip():
            return


def _add_yaml(data: bytes, file: str, objects: Objects) -> None:
    try:
        for document in load_documents(data):
            if document is not None:
                _add_document(document, file, objects)
    except NotADocumentError as error:
        raise InvalidInputError(
            f"{file}: neither JSON nor YAML: {str(error)[:300]}; give what kubectl prints"
        ) from None
    except DocumentError as error:
        raise InvalidInputError(f"{file}: {error}; correct it there") from None


def _add_document(document: Any, file: str, objects: Objects) -> None:
    for value in document if isinstance(document, list) else [document]:
        add_value(value, file, objects)


def _unreadable(file: Path, error: OSError) -> InvalidInputError:
    return InvalidInputError(
        f"{shown(file)}: cannot be read: {error.strerror or error}; check the path and its permissions"
    )


def _part(progress: Progress | None, start: float, end: float) -> Callable[[float], None]:
    """Return a function that reports the share done of a part of the work to `progress`."""

    def advance(share: float) -> None:
        if progress is not None:
            progress(round((start + share * (end - start)) * _SCALE), _SCALE)

    return advance
