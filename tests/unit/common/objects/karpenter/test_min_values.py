"""What new nodes may be planned to hold, so that as many other machines could hold it as `minValues` asks for."""

from hypothesis import given
from hypothesis import strategies as st

from trimtab.common.kubernetes.kinds.karpenter import PoolRequirement
from trimtab.common.kubernetes.quantities import counted_amounts
from trimtab.common.objects.karpenter.min_values import too_few_values, with_min_values
from trimtab.common.objects.karpenter.offers import INSTANCE_TYPE, ZONE, MachineOffer, OfferKey, labels_of
from trimtab.common.objects.karpenter.requirements import PoolRules, rules_of

FAMILY = "karpenter.k8s.aws/instance-family"
KEYS = (INSTANCE_TYPE, FAMILY, ZONE)


@st.composite
def machines(draw: st.DrawFn) -> list[MachineOffer]:
    """Return offerings of some types in some zones; GPUs and labels are missing from some."""
    found = []
    for number in range(draw(st.integers(1, 6))):
        amounts = {"cpu": f"{draw(st.sampled_from([1900, 3900, 7900]))}m", "memory": f"{draw(st.integers(1, 4)) * 8}Gi"}
        if draw(st.booleans()):
            amounts["nvidia.com/gpu"] = str(draw(st.integers(0, 2)))
        family = draw(st.sampled_from(["m", "r", ""]))
        for zone in draw(st.sets(st.sampled_from(["a", "b"]), min_size=1)):
            key = OfferKey(f"{family}{number}.x", zone, "on-demand")
            labels = labels_of(key, {FAMILY: family} if family else {})
            found.append(MachineOffer(key, amounts, amounts, labels))
    return sorted(found)


@st.composite
def min_values(draw: st.DrawFn) -> PoolRules:
    keys = draw(st.sets(st.sampled_from(KEYS), min_size=1))
    return rules_of(
        PoolRequirement(key=key, operator="Exists", min_values=draw(st.integers(1, 4))) for key in sorted(keys)
    )


def values_that_hold(key: str, amounts: dict[str, int], offers: list[MachineOffer]) -> set[str]:
    """Return the values of a label of which some offering has at least these amounts."""
    return {
        one.labels[key]
        for one in offers
        if key in one.labels
        and all(counted_amounts(one.allocatable).get(name, 0) >= amount for name, amount in amounts.items())
    }


@given(min_values(), machines())
def test_what_is_left_of_each_offering_is_at_most_its_own_and_enough_values_have_an_offering_for_it(
    rules: PoolRules, offers: list[MachineOffer]
) -> None:
    if too_few_values(rules, offers):
        return
    reduced = with_min_values(rules, offers)
    assert [one._replace(allocatable={}) for one in reduced] == [one._replace(allocatable={}) for one in offers]
    for one, before in zip(reduced, offers, strict=True):
        amounts, whole = counted_amounts(one.allocatable), counted_amounts(before.allocatable)
        assert amounts.keys() == whole.keys()
        assert all(amounts[name] <= whole[name] for name in amounts)
        for rule in rules.diverse:
            assert len(values_that_hold(rule.key, amounts, offers)) >= rule.min_values


@given(min_values(), machines())
def test_an_offering_that_enough_values_have_an_offering_for_keeps_all_its_amounts(
    rules: PoolRules, offers: list[MachineOffer]
) -> None:
    if too_few_values(rules, offers):
        return
    for one, before in zip(with_min_values(rules, offers), offers, strict=True):
        whole = counted_amounts(before.allocatable)
        if all(len(values_that_hold(rule.key, whole, offers)) >= rule.min_values for rule in rules.diverse):
            assert one == before


def test_requirements_without_min_values_change_nothing() -> None:
    offers = [MachineOffer(OfferKey("a", "z", "spot"), {}, {"cpu": "1"}, {})]
    assert with_min_values(rules_of([PoolRequirement(key=ZONE, operator="Exists")]), offers) == offers
