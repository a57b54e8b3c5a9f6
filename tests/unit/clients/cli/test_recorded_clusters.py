"""What commands say of the recorded real clusters, word for word: masters, the page."""

import re
from pathlib import Path

from tests.builders.cli import Run
from tests.unit.clients.cli.report.pages import page_of

RECORDINGS = Path(__file__).parents[4] / "clients/data/recordings"
NOW = ("--now", "2026-03-01T00:00:00Z")


def test_masters_in_the_price_file_count_in_the_share_that_is_saved(trimtab: Run, tmp_path: Path) -> None:
    """Without the three masters of m5.xlarge, 0.20 would be 33 % of the rest."""
    prices = tmp_path / "prices.csv"
    prices.write_text("type,price,currency\nm5.xlarge,0.192,USD\nm4.xlarge,0.2,USD\n")
    out = trimtab("plan", "--no-advice", RECORDINGS / "openshift-aws.json.gz", "--prices", prices, *NOW).out
    assert out.splitlines()[0] == (
        "1 of 6 nodes can go (17 %). That saves 0.20 of 1.18 USD an hour (17 %), 146 a month."
    )
    assert "Prices in USD: 6 nodes by instance type in prices.csv." in out


def test_the_page_has_the_figures_of_the_plan_and_says_what_it_is_of(trimtab: Run, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("scaleDown: {unneededTime: 5m}\n")
    file = RECORDINGS / "openshift-aws.json.gz"
    page = page_of(trimtab, tmp_path, file, "--settings", settings, "--title", "For the board", *NOW)
    assert "Now 712 6 nodes, assumed prices After the plan 593 5 nodes (1 removed)" in page.text
    for fact in ("2026-03-01 00:00 UTC", "Cluster openshift-aws", "Settings scaleDown: {unneededTime: 300s}"):
        assert fact in page.text
    assert page.text.count("For the board") == 2
    plan = " ".join(trimtab("plan", "--no-advice", file, "--settings", settings, *NOW).out.split())
    assert re.split(" No pod| Why", plan)[0] in page.text
