"""The image as a real builder builds it, and programs that run in it as in a pod of the chart: as its user, without
capabilities, with a read-only root and the volumes that the chart mounts. Network and processes are this machine's.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
NO_BUILDER = 3
ENTER = """
set -eu
root=$1 user=$2 group=$3; shift 3
mount --bind "$root" "$root"
while [ "$1" != -- ]; do mkdir -p "$root$2"; mount --bind "$1" "$root$2"; shift 2; done; shift
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero urandom; do touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
mount -o remount,ro,bind "$root"
exec chroot "$root" setpriv --reuid "$user" --regid "$group" --clear-groups --bounding-set=-all --inh-caps=-all \
  --no-new-privs -- "$@"
"""
"""Arguments: root, user, group, volumes as pairs of a folder and its place, "--", the command."""


@dataclass(frozen=True)
class BuiltImage:
    """root : its file system, which no program changes; config : as in the specification of OCI images."""

    root: Path
    config: dict[str, Any]

    @property
    def user(self) -> int:
        return int(self.config["User"].partition(":")[0])

    def command(
        self, arguments: Sequence[str], volumes: Mapping[str, Path] | None = None, **environment: str
    ) -> list[str]:
        """The command line that runs a program in the image, with volumes by their places."""
        user, _, group = self.config["User"].partition(":")
        variables = [*self.config["Env"], *(f"{name}={value}" for name, value in environment.items())]
        mounts = [part for place, folder in (volumes or {}).items() for part in (str(folder), place)]
        program = ["bash", "-c", ENTER, "enter", str(self.root), user, group, *mounts, "--"]
        return ["unshare", "--mount", "--propagation", "private", *program, "env", "-i", *variables, *arguments]

    def run(
        self, arguments: Sequence[str], volumes: Mapping[str, Path] | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        command = self.command(arguments, volumes, **environment)
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)

    @contextmanager
    def running(
        self, arguments: Sequence[str], volumes: Mapping[str, Path], log: Path
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a service; in the end it is asked to stop, and must."""
        with log.open("wb") as out:
            started = subprocess.Popen(self.command(arguments, volumes, NUMBA_DEBUG_CACHE="1"), stdout=out, stderr=out)
        try:
            yield started
            started.terminate()
            started.wait(60)
        finally:
            started.kill()
            started.wait(60)


@contextmanager
def built(out: Path) -> Iterator[BuiltImage]:
    """Build the image with storage in this folder. Skips the tests where there is no builder."""
    storage = ["buildah", "--root", str(out / "store"), "--runroot", str(out / "run")]
    try:
        done = subprocess.run([HERE / "build.sh", out], capture_output=True, text=True, check=False, timeout=900)
        if done.returncode == NO_BUILDER:
            pytest.skip(f"no image can be built here: {done.stderr.splitlines()[-1]}")
        assert done.returncode == 0, done.stderr[-4000:]
        config = json.loads((out / "image.json").read_text())["OCIv1"]["config"]
        yield BuiltImage(Path(done.stdout.splitlines()[-1]), config)
    finally:
        for end in (("umount", "--all"), ("rm", "--all"), ("rmi", "--all", "--force")):
            if shutil.which("buildah"):
                subprocess.run([*storage, *end], capture_output=True, check=False, timeout=100)
