"""The live screen as data: one content for the terminal (`trimtab top`) and for the page of the loop (`trimtab run
--web`). Knows neither.
"""
