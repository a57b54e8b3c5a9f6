"""A recording without what tells whose it is: every decision over it stays what it was.

Strings are replaced by tokens that keep their order (`tokens`), integers in strings that selectors compare by others
(`integers`), amounts, prices, times and ports by others with the same ratios, differences or order (`numbers`, which
lists what stays and why). Texts for people, digests, the original's producer and unknown fields are left out.
"""

from clients.cli.live.redaction.recordings import redact_file

__all__ = ["redact_file"]
