"""Sequences of pods that come and go and may share claims, against the real allocator (`device_oracle/README.md`)."""

import gzip
import json
from collections import Counter
from pathlib import Path

from tests.builders.examples import ALL
from tests.parity.device_sequences import differences

RECORDED = Path(__file__).parent / "data/devices/sequences.jsonl.gz"


def test_pods_that_share_claims_fit_the_same_nodes_and_get_the_same_devices_and_plans_put_them_there() -> None:
    kinds: Counter[str] = Counter()
    different = []
    for at, case in enumerate(map(json.loads, gzip.decompress(RECORDED.read_bytes()).splitlines())):
        minor = int(case["version"].partition(".")[2])
        # `CheckFit` and plans take longer than what decides on claims alone.
        wrong = differences(case["document"], {"steps": case["answers"]}, minor, whole=at % (6 if ALL else 18) == 0)
        different += [(case["document"]["name"], one) for one in wrong or ()]
        for tried in case["answers"]:
            kinds.update(key for one in tried for key in ("placed", "elsewhere", "error") if one.get(key))
        leaving = any(step["leaves"] for step in case["document"]["steps"])
        kinds["leaving"] += leaving
    assert different == []
    assert min(kinds[key] for key in ("placed", "elsewhere", "error", "leaving")) > 5
