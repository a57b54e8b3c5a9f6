"""Redaction of a recording: removes what identifies its owner, while every decision over it stays the same. Strings are
replaced by tokens in the same order (`tokens`), integers in strings that selectors compare by other integers
(`integers`), prices and times by others with the same ratios and differences (`numbers`). Texts for people, digests,
the original's producer and unknown fields are left out. Amounts, ports and counts stay.
"""

from trimtab.clients.cli.live.redaction.recordings import redact_file

__all__ = ["redact_file"]
