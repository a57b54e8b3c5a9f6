"""Whether a folder of compiled kernels may be used: loading one runs its content, as importing a module does.

Decides who may be able to write it: this process's account, root, and the owner of the source folder, whose code runs
anyway.
A group counts as others unless it is the account's own. Reads owners and modes, never contents. The folder's parents
are not checked: whoever replaces the folder itself owns the new one.
"""

import os
import stat
from contextlib import suppress
from typing import Final

_KERNELS: Final = (".nbi", ".nbc")


def why_unsafe(folder: str, sources: str) -> str:
    """Return why others could have written compiled code in a folder, "" = they could not. sources : folder of the
    kernels' source. O(files of the folder).
    """
    if not hasattr(os, "geteuid"):  # Windows
        return ""
    trusted = {os.geteuid(), 0, os.stat(sources).st_uid}
    with os.scandir(folder) as entries:
        kernels = [entry.path for entry in entries if entry.name.endswith(_KERNELS)]
    for path in (folder, *sorted(kernels)):
        # Another process may have replaced a kernel meanwhile.
        with suppress(FileNotFoundError):
            reason = _reason(os.stat(path), trusted)
            if reason:
                return f"{path} {reason}"
    return ""


def _reason(status: os.stat_result, trusted: set[int]) -> str:
    if status.st_uid not in trusted:
        return f"belongs to another account ({status.st_uid})"
    if status.st_mode & stat.S_IWOTH:
        return "may be written by every account"
    if status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid):
        return f"may be written by a group ({status.st_gid})"
    return ""


def _is_own_group(group: int) -> bool:
    """Return whether a group is the account's alone: its first one, with its name or, as in a container, with none."""
    import grp
    import pwd

    if group != os.getegid():
        return False
    try:
        name = grp.getgrgid(group).gr_name
    except KeyError:
        return True
    try:
        return name == pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        # An account without a name in the group of root, as OpenShift starts containers.
        return group == 0
