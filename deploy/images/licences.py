"""Print the licences of locked packages, from the metadata of those installed. Usage: licences.py LOCK > LICENCES.md.

Uses the standard library alone: it runs in an environment that has nothing but what is locked.
"""

import re
import sys
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata
from pathlib import Path

LOCKED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^ ;\\]+)", re.MULTILINE)
_LONGEST = 60
"""Longer texts are a licence itself rather than its name."""


def licence(found: PackageMetadata) -> str:
    """Return the name of a package's licence: its expression, else its classifiers, else the first line of its text."""
    expression = found.get("License-Expression")
    if expression:
        return str(expression)
    known = [one.rpartition(" :: ")[2] for one in found.get_all("Classifier") or () if one.startswith("License ::")]
    if known:
        return ", ".join(known)
    line = (found.get("License") or "").strip().partition("\n")[0]
    return line if 0 < len(line) <= _LONGEST else "see its licence file" if found.get_all("License-File") else "unknown"


def main(lock: Path) -> None:
    """Print a table of all packages of a lock file."""
    lines = ["# Licences of what the image holds beside Python and Debian", "", "Written by `.ci/lock`.", ""]
    lines += ["| package | version | licence |", "|---|---|---|"]
    for name, version in LOCKED.findall(lock.read_text()):
        try:
            told = licence(metadata(name))
        except PackageNotFoundError:
            told = "not in the image"  # only for another platform or Python
        lines.append(f"| {name} | {version} | {told} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
