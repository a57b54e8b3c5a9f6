"""Files that people write: YAML and JSON with positions (`loading`), bounded reading, whole writing, terminal text.

Never knows what a document means.
"""
