"""Which clusters a command reads: FILEs are one, each `--cluster NAME=FILE` and each `--context NAME` is one more.
FILEs beside contexts declare the node groups of those clusters. Decides names; reads nothing itself.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trimtab.clients.cli.failures import UsageError
from trimtab.common.documents.bounded_input import STANDARD_INPUT


@dataclass(frozen=True)
class ClusterInput:
    """One cluster: files with all its objects, or a live one with files of its node groups.

    context : of the kubeconfig, "" = its current one; only if `is_live`
    """

    name: str
    files: tuple[Path, ...] = ()
    context: str = ""
    kubeconfig: Path | None = None
    is_live: bool = False


@dataclass(frozen=True)
class ClusterChoice:
    """The options that choose clusters, as they are given."""

    files: tuple[Path, ...] = ()
    contexts: tuple[str, ...] = ()
    kubeconfig: Path | None = None
    named: tuple[str, ...] = ()

    def clusters(self) -> list[ClusterInput]:
        """Return the clusters, those of files first. Errors: UsageError."""
        is_live = bool(self.contexts) or self.kubeconfig is not None
        found = _named(self.named)
        if self.files and not is_live:
            found.insert(0, ClusterInput(_name_of(self.files[0]), self.files))
        if is_live:
            found += [
                ClusterInput(context or "current context", self.files, context, self.kubeconfig, is_live=True)
                for context in self.contexts or ("",)
            ]
        counts = Counter(one.name for one in found)
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            raise UsageError(f"two clusters are named {twice[0]}; give each its own name with --cluster NAME=FILE")
        return found


def _named(texts: Sequence[str]) -> list[ClusterInput]:
    """Read `--cluster NAME=FILE`; a name that is given again has one more file."""
    files: dict[str, list[Path]] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise UsageError(f"--cluster {text}: write it as NAME=FILE; repeat it for more files and clusters")
        files.setdefault(name, []).append(Path(path))
    return [ClusterInput(name, tuple(paths)) for name, paths in files.items()]


def _name_of(file: Path) -> str:
    """Return the name of a cluster in a file: the file's without the endings."""
    return "standard input" if file == STANDARD_INPUT else file.name.split(".")[0] or file.name
