"""Folders of compiled kernels are used only if nobody else can have written them."""

import os
from pathlib import Path

import pytest

from trimtab.planner.compiled.kernel_cache import why_unsafe

STRANGER = 54_321


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a kernel, and files that are none of numba's."""
    path = tmp_path / "kernels"
    path.mkdir(mode=0o755)
    for name in ("a.nbi", "a.1.nbc", "a.pyc"):
        (path / name).touch(0o644)
    return path


def reason(folder: Path) -> str:
    return why_unsafe(str(folder), str(folder.parent))


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        pytest.param(0o700, "", id="the owner's"),
        pytest.param(0o755, "", id="that others may read"),
        pytest.param(0o777, "every account", id="that all may write"),
        pytest.param(0o1777, "every account", id="like /tmp: others can add an index"),
    ],
)
def test_a_folder_is_safe_if_its_mode_lets_no_other_user_write(folder: Path, mode: int, words: str) -> None:
    folder.chmod(mode)
    assert words in reason(folder)
    assert bool(words) == bool(reason(folder))


@pytest.mark.parametrize("name", ["a.nbi", "a.1.nbc"])
def test_a_kernel_that_others_may_write_makes_its_folder_unsafe(folder: Path, name: str) -> None:
    (folder / name).chmod(0o666)
    assert f"{name} may be written by every account" in reason(folder)


def test_files_that_are_no_kernels_do_not_count(folder: Path) -> None:
    (folder / "a.pyc").chmod(0o666)
    assert reason(folder) == ""


def test_the_groups_right_counts_unless_the_group_is_the_accounts_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.chmod(0o775)
    monkeypatch.setattr(os, "getegid", lambda: folder.stat().st_gid + 1)
    assert "may be written by a group" in reason(folder)
    monkeypatch.setattr(os, "getegid", lambda: folder.stat().st_gid)
    monkeypatch.setattr("grp.getgrgid", lambda _group: _Named("staff"))
    monkeypatch.setattr("pwd.getpwuid", lambda _user: _Named("ann"))
    assert "may be written by a group" in reason(folder)
    monkeypatch.setattr("grp.getgrgid", lambda _group: _Named("ann"))
    assert reason(folder) == ""


class _Named:
    """An entry of the group or the user database."""

    def __init__(self, name: str) -> None:
        self.gr_name = self.pw_name = name


def test_a_kernel_of_another_account_makes_its_folder_unsafe(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = os.stat

    def owned_by_a_stranger(path: str) -> os.stat_result:
        found = list(ours(path))
        if path.endswith(".nbi"):
            found[4] = STRANGER
        return os.stat_result(found)

    monkeypatch.setattr(os, "stat", owned_by_a_stranger)
    assert f"a.nbi belongs to another account ({STRANGER})" in reason(folder)


def test_the_owner_of_the_source_is_trusted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    assert reason(folder) == ""
