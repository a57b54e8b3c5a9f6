"""A headless Chromium for tests of pages: the one on PATH, or that of the environment variable TRIMTAB_CHROMIUM."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LIMIT_MS = 60_000
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
CHROMIUM = os.environ.get("TRIMTAB_CHROMIUM") or next((found for name in _NAMES if (found := shutil.which(name))), "")
needs_chromium = [
    pytest.mark.skipif(find_spec("playwright") is None, reason="needs Playwright: pip install -e '.[test]'"),
    pytest.mark.skipif(not CHROMIUM, reason="needs Chromium, on PATH or in TRIMTAB_CHROMIUM"),
]


@contextmanager
def opened_browser(program: str) -> Iterator["Browser"]:
    """Start the browser, and end it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        found = playwright.chromium.launch(executable_path=program, args=arguments, timeout=LIMIT_MS)
        yield found
        found.close()
