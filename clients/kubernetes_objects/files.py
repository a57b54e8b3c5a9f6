"""Files to a snapshot: Kubernetes objects as JSON or YAML, plain or gzipped, or one recording.

What a file is, is decided by its content, not by its name. The only module of this package that reads files.
Cost: 150,000 pods of JSON in a few seconds; YAML some ten times more, for its parser.
"""

import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import yaml
from trimtab.v1.snapshot_pb2 import ClusterSnapshot, SnapshotDelta

from clients.kubernetes_objects.build import BuiltSnapshot, Progress, build_snapshot, collection_paused
from clients.kubernetes_objects.decode import add_text, add_value
from clients.kubernetes_objects.errors import InputError
from clients.kubernetes_objects.objects import Objects
from clients.recording import RecordingError, RecordingReader, is_recording
from clients.snapshot_deltas import Application

_GZIP_MAGIC = b"\x1f\x8b"
_READ_SHARE = 0.7
"""Of all the work, about what reading takes; building takes the rest."""
_SCALE = 1_000_000
_PEEK = 4096
_SMALL = 64
"""Bytes; a rest of white space only is not longer, unless somebody means to tease."""


def read_files(paths: Sequence[str | PathLike[str]], progress: Progress | None = None) -> BuiltSnapshot:
    """Return the snapshot of a cluster kept in files, together one cluster.

    progress : called with (done, total) in one unit for all the work. Errors: InputError or a subclass, for a file that
    cannot be read, is neither Kubernetes objects nor a recording, or has a broken object; with what to do.
    """
    if not paths:
        raise InputError("no file is given; give what `kubectl get -o json` or `-o yaml` prints, or a recording")
    with collection_paused():
        recording = _only_recording(paths)
        if recording is not None:
            built = read_recording(recording)
            if progress is not None:
                progress(_SCALE, _SCALE)
            return built
        objects = read_objects(paths, _part(progress, 0.0, _READ_SHARE))
        after = _part(progress, _READ_SHARE, 1.0)
        built = build_snapshot(objects, lambda done, total: after(done / total))
        after(1.0)
    return built


def read_objects(paths: Iterable[str | PathLike[str]], advance: Callable[[float], None] | None = None) -> Objects:
    """Return the objects of several files. `advance` is called with the share done, 0 to 1. Errors: as `read_files`."""
    objects = Objects()
    files = [Path(path) for path in paths]
    sizes = [_size(file) for file in files]
    total, before = sum(sizes) or 1, 0
    for file, size in zip(files, sizes, strict=True):
        start = before

        def within(share: float, start: int = start, size: int = size) -> None:
            if advance is not None:
                advance((start + share * size) / total)

        _add_content(_content(file), str(file), objects, within)
        before += size
        within(1.0)
    return objects


def read_recording(path: Path) -> BuiltSnapshot:
    """Return the last cluster in a recording: its last whole one, with all changes after it. Errors: InputError."""
    snapshot: ClusterSnapshot | None = None
    deltas: list[SnapshotDelta] = []
    moments = 0
    try:
        with path.open("rb") as file:
            reader = RecordingReader(str(path), file)
            for frame in reader:
                which = frame.WhichOneof("frame")
                if which == "snapshot":
                    snapshot, deltas = frame.snapshot, []
                elif which == "delta":
                    deltas.append(frame.delta)
                moments += which in ("snapshot", "delta")
    except RecordingError as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise _unreadable(path, error) from None
    if snapshot is None:
        raise InputError(f"{path}: the recording holds no whole cluster; record anew")
    notes = [] if reader.complete else [f"{path} was not closed: its last loops may be missing"]
    if moments > 1:
        notes.append(f"{path} holds a cluster at {moments} moments; this is the last")
    return BuiltSnapshot(_brought_forward(path, snapshot, deltas), notes)


def _brought_forward(path: Path, snapshot: ClusterSnapshot, deltas: list[SnapshotDelta]) -> ClusterSnapshot:
    if not deltas:
        return snapshot
    try:
        cluster = Application(snapshot)
        for delta in deltas:
            cluster.add(delta)
    except (ValueError, IndexError) as error:
        raise InputError(f"{path}: its changes do not fit the cluster before them ({error}); record anew") from None
    return cluster.result()


def _only_recording(paths: Sequence[str | PathLike[str]]) -> Path | None:
    recordings = [Path(path) for path in paths if is_recording(_head(Path(path)))]
    if recordings and len(paths) > 1:
        raise InputError(f"{recordings[0]} is a recording, which is a whole cluster; give it alone")
    return recordings[0] if recordings else None


def _head(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(4)
    except OSError as error:
        raise _unreadable(file, error) from None


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError as error:
        raise _unreadable(file, error) from None


def _content(file: Path) -> bytes:
    """Read a file, unpacked and as UTF-8 without a byte order mark."""
    try:
        data = file.read_bytes()
        if data.startswith(_GZIP_MAGIC):
            data = gzip.decompress(data)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{file}: its compressed data are damaged or cut off ({error}); copy it again") from None
    except OSError as error:
        raise _unreadable(file, error) from None
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        data = data.decode("utf-16", errors="replace").encode()
    return data.removeprefix(b"\xef\xbb\xbf")


def _add_content(data: bytes, file: str, objects: Objects, advance: Callable[[float], None]) -> None:
    first = (data[:_PEEK].lstrip() or data.lstrip())[:1]
    if not first:
        raise InputError(f"{file}: it is empty; give what `kubectl get -o json` or `-o yaml` prints, or a recording")
    if first == b"{":
        _add_json(data, file, objects, advance)
    else:
        _add_yaml(data, file, objects)


def _add_json(data: bytes, file: str, objects: Objects, advance: Callable[[float], None]) -> None:
    """Several documents may stand one after the other, as of several kubectl calls, or one on each line."""
    rest = memoryview(data)
    while rest:
        start = len(data) - len(rest)

        def within(share: float, start: int = start, size: int = len(rest)) -> None:
            advance((start + share * size) / len(data))

        rest = rest[add_text(rest, file, objects, within) :]
        if len(rest) < _SMALL and not bytes(rest).strip():
            return


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: a time stays text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _add_yaml(data: bytes, file: str, objects: Objects) -> None:
    try:
        for document in yaml.load_all(io.BytesIO(data), Loader=_Loader):
            if document is not None:
                _add_document(document, file, objects)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        first = str(error).replace("\n", " ")[:300]
        raise InputError(f"{file}: neither JSON nor YAML: {first}; give what kubectl prints") from None


def _add_document(document: Any, file: str, objects: Objects) -> None:
    for value in document if isinstance(document, list) else [document]:
        add_value(value, file, objects)


def _unreadable(file: Path, error: OSError) -> InputError:
    return InputError(f"{file}: cannot be read: {error.strerror or error}; check the path and its permissions")


def _part(progress: Progress | None, start: float, end: float) -> Callable[[float], None]:
    """Turn shares of a part of the work into calls of `progress`."""

    def advance(share: float) -> None:
        if progress is not None:
            progress(round((start + share * (end - start)) * _SCALE), _SCALE)

    return advance
