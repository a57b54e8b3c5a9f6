"""Settings that restrict, and devices of snapshots, require a feature of the planner; no field of the settings is
forgotten."""

import pytest
from google.protobuf.json_format import ParseDict

from tests.builders.contract_page import table
from trimtab.clients.required_features import require_features, required_features, snapshot_features
from trimtab.setting_options import FEATURES, OF_SETTINGS, OF_SNAPSHOTS, fields_below
from trimtab.v1 import options_pb2, plan_pb2, snapshot_pb2


def test_every_setting_says_what_the_contract_says_of_settings() -> None:
    """An author of a setting has to write its option, and so to decide whether it restricts."""
    silent = [
        field.full_name
        for field in fields_below(plan_pb2.PlanSettings.DESCRIPTOR)
        if not field.GetOptions().HasExtension(options_pb2.setting)
        and (field.message_type is None or field.message_type.full_name == "google.protobuf.Duration")
    ]
    assert silent == []


def test_the_page_of_the_contract_has_the_same_table() -> None:
    told = {
        cells[0].strip("`"): [name.strip(" `") for name in cells[1].split(",")] for cells in table("Required features")
    }
    assert list(told) == list(FEATURES)
    found = {name.removeprefix("trimtab.v1."): feature for name, feature in {**OF_SETTINGS, **OF_SNAPSHOTS}.items()}
    assert {name: feature for feature, names in told.items() for name in names} == found


@pytest.mark.parametrize(
    ("settings", "features"),
    [
        pytest.param({}, [], id="none"),
        pytest.param({"searchEffort": "BEST", "scaleDown": {"balance": True}}, [], id="choices"),
        pytest.param({"scaleDown": {"unneededTime": "0s"}}, ["unneeded-times"], id="an empty message"),
        pytest.param({"scaleDown": {"unreadyEnabled": False}}, ["unready-nodes"], id="a false value that is given"),
        pytest.param({"planner": {"limits": [{"resource": "cpu"}]}}, ["resource-limits"], id="in a list"),
        pytest.param({"nodeGroups": {"a": {}}}, ["node-group-overrides"], id="in a map"),
        pytest.param(
            {"slack": {"pools": [{"name": "p", "resources": {"cpu": {"rate": 0.1}}}]}},
            ["slack-amounts", "slack-pools"],
            id="below a list and a map",
        ),
        pytest.param(
            {"simulation": {"taintTolerationComparisonOperators": True}, "scaleDown": {"maxEvaluatedNodes": 3}},
            ["max-evaluated-nodes", "taint-comparison-operators"],
            id="of several kinds",
        ),
    ],
)
def test_settings_that_are_given_require_their_features(settings: object, features: list[str]) -> None:
    assert required_features(ParseDict(settings, plan_pb2.PlanSettings())) == features


def test_features_that_the_caller_requires_stay_and_nothing_is_added_twice() -> None:
    request = plan_pb2.PlanRequest(required_features=["of-tomorrow", "unready-nodes"])
    request.settings.scale_down.unready_enabled = False
    request.settings.scale_down.max_drain_parallelism = 1
    for _ in range(2):
        require_features(request)
        assert list(request.required_features) == ["of-tomorrow", "parallelism", "unready-nodes"]


CLAIM = {"claims": [{"name": "gpu"}]}


@pytest.mark.parametrize(
    ("rows", "features"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({"nodes": [{"name": "a"}], "podSpecs": [{}], "devices": {}}, [], id="no devices"),
        pytest.param({"devices": {"classes": [{"name": "gpu"}]}}, ["devices"], id="devices"),
        pytest.param({"podSpecs": [{}, CLAIM]}, ["devices"], id="a pod with a claim"),
        pytest.param({"slackRequests": {"dictionary": {"podSpecs": [CLAIM]}}}, ["devices"], id="slack with a claim"),
        pytest.param(
            {"capacityRequests": {"dictionary": {"podSpecs": [CLAIM]}}}, ["devices"], id="a request with a claim"
        ),
    ],
)
def test_a_snapshot_with_devices_or_claims_requires_a_planner_that_knows_them(
    rows: object, features: list[str]
) -> None:
    snapshot = ParseDict(rows, snapshot_pb2.ClusterSnapshot())
    assert snapshot_features(snapshot) == features
    request = plan_pb2.PlanRequest()
    require_features(request, snapshot)
    assert list(request.required_features) == features
