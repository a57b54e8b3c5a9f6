"""A node's text is the one set last."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trimtab.planner.scale_down.answer import NodeTexts

COUNT = 5
TEXTS = st.sampled_from(["", "a", "b", "other"])


@given(
    st.lists(st.tuples(st.dictionaries(st.integers(0, COUNT - 1), TEXTS), st.sampled_from(["each", "shared", "one"])))
)
def test_a_node_has_the_text_put_last(puts: list[tuple[dict[int, str], str]]) -> None:
    texts, expected = NodeTexts(COUNT), [""] * COUNT
    for by_node, how in puts:
        nodes = np.array(list(by_node), np.int32)
        given_texts = list(by_node.values())
        if how == "each":
            texts.put(nodes, given_texts)
        elif how == "shared":
            distinct = sorted(set(given_texts))
            texts.put_shared(nodes, distinct, np.array([distinct.index(text) for text in given_texts], np.int32))
        else:
            given_texts = given_texts[:1] * len(nodes)
            texts.put_one(nodes, given_texts[0] if given_texts else "")
        for node, text in zip(by_node, given_texts, strict=True):
            expected[node] = text if text or how != "one" else expected[node]
    for nodes in ([], [1], [3, 0], list(range(COUNT))):
        assert texts.of(np.array(nodes, np.int32)) == tuple(expected[node] for node in nodes)
