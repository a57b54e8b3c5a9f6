"""Records what the real compiler and evaluator of selectors say to a list of expressions and devices.

`python -m tests.parity.device_oracle.expressions --oracle36 PROGRAM --oracle37 PROGRAM`: reads and replaces
`data/devices/selectors.jsonl.gz`, a document of each version with its answers. To add an expression, add it there to
the documents (`--add EXPRESSION`).
"""

import argparse
import gzip
import json
from pathlib import Path

from tests.parity.device_oracle.compare import asked

PATH = Path(__file__).parents[1] / "data/devices/selectors.jsonl.gz"


def main() -> None:
    """Ask again about what is recorded, and about what is added."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oracle36", required=True)
    parser.add_argument("--oracle37", required=True)
    parser.add_argument("--add", action="append", default=[])
    options = parser.parse_args()
    lines = [json.loads(line) for line in gzip.decompress(PATH.read_bytes()).splitlines()]
    out = []
    for line in lines:
        document = line["document"]
        document["expressions"] += [one for one in options.add if one not in document["expressions"]]
        program = options.oracle36 if line["version"].startswith("1.36") else options.oracle37
        (answer,) = asked(program, [document])
        out.append({"version": line["version"], "document": document, "answers": answer["expressions"]})
    content = "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in out)
    PATH.write_bytes(gzip.compress(content.encode(), mtime=0))


if __name__ == "__main__":
    main()
