"""FILE arguments into a snapshot, with a progress bar where somebody looks and every note told."""

from collections.abc import Sequence
from pathlib import Path

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from trimtab.v1 import snapshot_pb2

from clients.cli.failures import InputError
from clients.cli.output import note, stderr_console

MOST_NOTES = 20


def read_snapshot(paths: Sequence[Path]) -> snapshot_pb2.ClusterSnapshot:
    """Read the files as one cluster."""
    from clients.kubernetes_objects import read_files

    if not paths:
        raise InputError("no FILE is given; make one with: kubectl get nodes,pods,pdb,… -A -o json > cluster.json")
    for path in paths:
        _check(path)
    console = stderr_console()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading", total=None)
        built = read_files(paths, progress=lambda done, total: bar.update(task, completed=done, total=total))
    for text in built.notes[:MOST_NOTES]:
        note(text)
    if len(built.notes) > MOST_NOTES:
        note(f"… and {len(built.notes) - MOST_NOTES} more")
    return built.snapshot


def _check(path: Path) -> None:
    """Refuse what cannot be a file of objects, before anything is read."""
    if path.is_dir():
        raise InputError(f"{path}: this is a directory; name the files in it")
    if not path.exists():
        raise InputError(f"{path}: there is no such file")
