"""Numbers with nouns, for texts that people read. Written by hand, beside the generated modules: planner, actuator and
clients may all import it.
"""


def counted(count: int, noun: str, verbs: tuple[str, str] | None = None) -> str:
    """Return "1 node", "2 nodes", "3 classes". verbs : appended, of one and of several: ("has", "have")."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    text = f"{count:,} {noun if count == 1 else plural}"
    return f"{text} {verbs[count != 1]}" if verbs else text
