"""A temporary PostgreSQL server on loopback from the binaries of Debian's package.

Durability is switched off: the process is killed in these tests, never the machine.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.builders.waiting import LIMIT_S
from tests.e2e.control_plane.control_plane import free_ports

USER = "postgres"
ATTEMPTS = 3
"""Another process may take the port before the server does."""


def missing() -> str:
    """Return why no server can be started here; "" = one can, or must because TRIMTAB_REQUIRE_POSTGRESQL is set."""
    if os.environ.get("TRIMTAB_REQUIRE_POSTGRESQL"):
        return ""
    if find_spec("psycopg") is None:
        return "the extra is not installed: pip install 'trimtab[postgresql]'"
    if _binaries() is None:
        return "PostgreSQL is not installed: apt-get install postgresql (.ci/e2e does)"
    return ""


@contextmanager
def running_postgresql() -> Iterator[str]:
    """Run a server; yield the URL of an empty database."""
    binaries = _binaries()
    assert binaries is not None, "PostgreSQL is not installed"
    directory = Path(tempfile.mkdtemp(prefix="trimtab-postgresql-"))
    _give_away(directory)
    process = None
    try:
        data = directory / "data"
        initdb = [str(binaries / "initdb"), f"--pgdata={data}", "--auth=trust", f"--username={USER}", "--no-sync"]
        subprocess.run(_as_user(initdb), check=True, capture_output=True, cwd="/")
        for _ in range(ATTEMPTS):
            (port,) = free_ports(1)
            process = _start(binaries, data, port)
            url = f"postgresql://{USER}@127.0.0.1:{port}/postgres"
            if _answers(url, process):
                break
        else:
            raise AssertionError("PostgreSQL ended")
        yield url
    finally:
        if process is not None:
            process.terminate()
            process.wait(LIMIT_S)
        shutil.rmtree(directory, ignore_errors=True)


def _start(binaries: Path, data: Path, port: int) -> subprocess.Popen[bytes]:
    settings = {"listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": "", "fsync": "off"}
    options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    return subprocess.Popen(
        _as_user([str(binaries / "postgres"), "-D", str(data), *options]),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
    )


def _binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    name = str(found[-1]) if found else shutil.which("initdb")
    return Path(name).parent if name else None


def _as_user(command: Sequence[str]) -> list[str]:
    """Return a command that runs as another user, since the server refuses to run as root."""
    if os.getuid() != 0:
        return list(command)
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *command]


def _give_away(directory: Path) -> None:
    if os.getuid() == 0:
        user = pwd.getpwnam(USER)
        os.chown(directory, user.pw_uid, user.pw_gid)


def _answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Wait until a server answers; return False if it ended."""
    import psycopg

    end = time.monotonic() + LIMIT_S
    while True:
        try:
            psycopg.connect(url, connect_timeout=2).close()
            return True
        except psycopg.OperationalError:
            if process.poll() is not None:
                return False
            assert time.monotonic() < end, "PostgreSQL does not answer"
            time.sleep(0.05)
