"""What commands say of the recorded real clusters, word for word: masters, rates, several clusters, the page."""

import re
from pathlib import Path

import pytest

from tests.builders.cli import Run
from tests.unit.clients.cli.report.pages import page_of

RECORDINGS = Path(__file__).parents[4] / "clients/data/recordings"
NOW = ("--now", "2026-03-01T00:00:00Z")
NAMES = ("aws", "azure", "metal", "vsphere")
TABLE = """\
2 of 24 nodes in 4 clusters can go. That saves 0.75 of 6.99 an hour (11 %), 546 a month.

cluster  nodes  can go  added  an hour  after  saved a month  share
metal        6       1            3.51   2.93            427   17 %
aws          6       1            0.98   0.81            119   17 %
azure        6       0            1.53   1.53              0    0 %
vsphere      6       0            0.98   0.98              0    0 %
all         24       2            6.99   6.25            546   11 %
metal: Prices: 6 nodes by rates (0.03 a core and 0.004 a GiB of memory an hour).
aws: Prices: 6 nodes by rates (0.03 a core and 0.004 a GiB of memory an hour).
azure: Prices: 6 nodes by rates (0.03 a core and 0.004 a GiB of memory an hour).
vsphere: Prices: 6 nodes by rates (0.03 a core and 0.004 a GiB of memory an hour).
"""


def test_masters_in_the_price_file_count_in_the_share_that_is_saved(trimtab: Run, tmp_path: Path) -> None:
    """Without the three masters of m5.xlarge, 0.20 would be 33 % of the rest."""
    prices = tmp_path / "prices.csv"
    prices.write_text("type,price,currency\nm5.xlarge,0.192,USD\nm4.xlarge,0.2,USD\n")
    out = trimtab("plan", RECORDINGS / "openshift-aws.json.gz", "--prices", prices, *NOW).out
    assert out.splitlines()[0] == (
        "1 of 6 nodes can go (17 %). That saves 0.20 of 1.18 USD an hour (17 %), 146 a month."
    )
    assert "Prices in USD: 6 nodes by instance type in prices.csv." in out


def test_several_clusters_are_one_table(trimtab: Run) -> None:
    clusters = [word for name in NAMES for word in ("--cluster", f"{name}={RECORDINGS}/openshift-{name}.json.gz")]
    out = trimtab("plan", *clusters, "--rates", "cpu=0.03,memory=0.004", *NOW).out
    assert "\n".join(line.rstrip() for line in out.splitlines()) + "\n" == TABLE


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        pytest.param("aws", "Now 712 6 nodes, assumed prices After the plan 593 5 nodes (1 removed)", id="aws"),
        pytest.param("azure", "Now 1,116 6 nodes, assumed prices After the plan 1,116 6 nodes", id="azure"),
    ],
)
def test_the_page_has_the_figures_of_the_plan_and_says_what_it_is_of(
    trimtab: Run, tmp_path: Path, name: str, figures: str
) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("scaleDown: {unneededTime: 5m}\n")
    file = RECORDINGS / f"openshift-{name}.json.gz"
    page = page_of(trimtab, tmp_path, file, "--settings", settings, "--title", "For the board", *NOW)
    assert figures in page.text
    for fact in ("2026-03-01 00:00 UTC", f"Cluster openshift-{name}", "Settings scaleDown: {unneededTime: 300s}"):
        assert fact in page.text
    assert page.text.count("For the board") == 2
    plan = " ".join(trimtab("plan", file, "--settings", settings, *NOW).out.split())
    assert re.split(" No pod| Why", plan)[0] in page.text
