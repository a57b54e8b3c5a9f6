"""Records what the real Cluster Autoscaler answers to the demo's clusters; README.md says how the program is built.

Usage: python -m tests.parity.cluster_autoscaler_oracle.demo --oracle PROGRAM
Writes clients/data/recordings/cluster_autoscaler_answers.json: by digest of the input, for each of `RUNS` orders of the
node list how many nodes one loop would delete (limits of parallelism and timers aside) and what these cost an hour.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from trimtab.clients.cli.demo.command import generated_chapter, recorded_chapter
from trimtab.clients.cli.demo.verdict import FILE, digest
from trimtab.clients.cli.prices import Prices, node_prices
from trimtab.clients.cluster_view import ClusterView
from trimtab.common.objects import read_files

from .record import ask

TARGET = Path(__file__).parents[3] / "clients" / "data" / "recordings" / FILE
VERSION, NOW, RUNS = "Cluster Autoscaler 1.36", "2026-11-01T00:00:00Z", 100
SHARED = ("skipNodesWithLocalStorage", "skipNodesWithSystemPods")
"""Settings of the demo that the oracle has too; timers and limits it never applies."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", required=True, help="the built program")
    program = parser.parse_args().oracle
    answers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        for chapter in (recorded_chapter(Path(directory)), generated_chapter(Path(directory))):
            (file,) = chapter.files
            data = file.read_bytes()
            chosen = json_format.MessageToDict(chapter.scenario.settings.scale_down)
            settings = {name: chosen[name] for name in SHARED if name in chosen}
            items = json.loads(data)["items"]
            document = {"name": chapter.scenario.name, "now": NOW, "settings": {"scaleDown": settings}, "items": items}
            (answer,) = ask(program, [document], RUNS)
            prices = node_prices(ClusterView(read_files([file]).snapshot), Prices())
            going = [[*run["empty"], *run["drain"]] for run in answer["runs"]]
            answers[digest(data)] = {
                "cluster": chapter.scenario.name,
                "settings": settings,
                "now": NOW,
                "nodes": [len(nodes) for nodes in going],
                "savingPerHour": [
                    round(sum(prices[node].per_hour for node in nodes if node in prices), 2) for nodes in going
                ],
            }
    document = {
        "version": VERSION,
        "how": "python -m tests.parity.cluster_autoscaler_oracle.demo --oracle PROGRAM",
        "answers": answers,
    }
    TARGET.write_text(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
