"""Pictures of the pages: Mermaid blocks, which GitHub draws itself, are SVG files on the site, which needs no network.

As a hook of mkdocs this puts `docs/assets/PAGE-N.svg` in the place of the N-th block of a page. As a program it draws
the files: `python .ci/pictures.py` needs npm (for mermaid, at the version below), playwright, and a Chromium. A
file names the digest of the text that it shows; tests/contract/test_documentation_site.py says when one is old.
"""

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
MERMAID = "mermaid@11.12.0"
_BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DRAW = """async ([text, name]) => {
  mermaid.initialize({startOnLoad: false, theme: "neutral", htmlLabels: false, deterministicIds: true,
    flowchart: {htmlLabels: false}, fontFamily: "sans-serif"});
  return (await mermaid.render(name, text)).svg;
}"""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Show files in the place of blocks."""
    names = iter(name for name, _ in pictures(Path(page.file.src_path).stem, markdown))
    return _BLOCK.sub(lambda _: f"![{page.title or 'picture'}: picture](assets/{next(names)})", markdown)


def pictures(page: str, markdown: str) -> Iterator[tuple[str, str]]:
    """Yield the file of each block of a page, and the block's text."""
    for number, block in enumerate(_BLOCK.findall(markdown), start=1):
        yield f"{page}-{number}.svg", block


def digest(text: str) -> str:
    """Return what a file says of its text."""
    return f"mermaid sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def draw() -> None:
    """Write the files of all pages."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        subprocess.run(["npm", "install", "--silent", "--prefix", folder, MERMAID], check=True)
        script = Path(folder) / "node_modules" / "mermaid" / "dist" / "mermaid.min.js"
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        tab = browser.new_page()
        tab.add_script_tag(path=str(script))
        for file in sorted(DOCS.glob("*.md")):
            for name, text in pictures(file.stem, file.read_text(encoding="utf-8")):
                svg = tab.evaluate(_DRAW, [text, name.removesuffix(".svg")])
                svg = svg.replace("background-color: transparent", "background-color: white", 1)
                svg = re.sub(r"(\d\.\d)\d+", r"\1", svg)
                (DOCS / "assets" / name).write_text(f"{svg}\n<!-- {digest(text)} -->\n", encoding="utf-8")
        browser.close()


if __name__ == "__main__":
    draw()
