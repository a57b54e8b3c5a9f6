"""Redaction of a recording: removes what identifies its owner, while every decision over it stays the same. Strings are
replaced by tokens in the same order (`tokens`), integers in strings that selectors compare by other integers
(`integers`), amounts, prices, times and ports by others with the same ratios, differences or order (`numbers`, which
lists what stays and why). Texts for people, digests, the original's producer and unknown fields are left out.
"""

from trimtab.clients.cli.live.redaction.recordings import redact_file

__all__ = ["redact_file"]
