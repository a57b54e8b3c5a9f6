"""Threads that decode structs for the first time, all at once."""

import signal
import subprocess
import sys

PROGRAM = """
import sys, threading
import msgspec
from trimtab.common.kubernetes.json_envelope import decoder

sys.setswitchinterval(1e-6)
for number in range(150):
    inner = msgspec.defstruct(f"Inner{number}", [(f"field_{n}", int | None, None) for n in range(40)])
    outer = msgspec.defstruct(f"Outer{number}", [(f"part_{n}", inner | None, None) for n in range(10)])
    begin = threading.Barrier(6)

    def read():
        begin.wait()
        assert decoder(outer).decode(b'{"part_9": {"field_39": 7}}').part_9.field_39 == 7

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("read")
"""


def test_threads_that_decode_a_struct_for_the_first_time_at_once_do_not_end_the_process() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode != -signal.SIGSEGV
    assert (result.returncode, result.stdout) == (0, "read\n"), result.stderr
