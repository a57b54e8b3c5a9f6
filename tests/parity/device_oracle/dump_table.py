"""Writes the table of cases of the allocator's own tests as documents, with the answers that those tests accept.

`python -m tests.parity.device_oracle.dump_table MODULE VERSION OUT`: MODULE is the folder of the Go module
k8s.io/dynamic-resource-allocation (`go mod download -json k8s.io/dynamic-resource-allocation@VERSION` names it), OUT a
`.jsonl.gz`. A copy of the module gets a function that writes each case, and its own tests run in it; cases with
features that this variant of the allocator ("incubating", the one that schedulers use by default) does not know are
left out.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

LOSSY = {"consumable-capacity-requests-are-not-modified"}
"""Cases whose quantities of 10**21 Kubernetes itself writes as "1"; restated in the unit tests of capacity."""

CALL = "results, err := allocator.Allocate(ctx, tc.node, unwrap(claimsToAllocate...))"
DUMP = f"{CALL}\n\t\t\tdumpCase(name, tc, unwrap(claimsToAllocate...), results, err)"


def patched(module: Path, folder: Path) -> None:
    """Copy the module, and have its table write itself."""
    shutil.copytree(module, folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    tests = folder / "structured/internal/allocatortesting"
    table = tests / "allocator_testing.go"
    text = table.read_text()
    assert text.count(CALL) == 1, "the call of the table's test has changed"
    table.write_text(text.replace(CALL, DUMP))
    shutil.copy(Path(__file__).parent / "dump.go.txt", tests / "dump.go")


def reduced(document: dict[str, object]) -> dict[str, object]:
    """Return a document without what is empty."""

    def without_empty(value: object) -> object:
        if isinstance(value, dict):
            kept = {key: without_empty(one) for key, one in value.items() if key not in {"creationTimestamp", "status"}}
            return {key: one for key, one in kept.items() if one is not None}
        return [without_empty(one) for one in value] if isinstance(value, list) else value

    found = without_empty(document)
    assert isinstance(found, dict)
    return found


def main() -> None:
    """Write the table of one version."""
    module, version, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    with TemporaryDirectory() as temporary:
        folder, dumped = Path(temporary) / "module", Path(temporary) / "table.jsonl"
        patched(module, folder)
        command = ["go", "test", "-mod=mod", "-run", "^TestAllocator$", "./structured/internal/incubating"]
        subprocess.run(command, cwd=folder, env={**os.environ, "DUMP_TABLE": str(dumped)}, check=True)
        lines = [json.loads(line) for line in dumped.read_text().splitlines()]
    lines = [line for line in lines if line["document"]["name"] not in LOSSY]
    lines.sort(key=lambda line: line["document"]["name"])
    content = "".join(
        json.dumps({"version": version, **one, "document": reduced(one["document"])}, separators=(",", ":")) + "\n"
        for one in lines
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(gzip.compress(content.encode(), mtime=0))
    print(len(lines), "cases")


if __name__ == "__main__":
    main()
