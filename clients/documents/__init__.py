"""Files that people write: YAML and JSON with positions, bounded reading, whole writing, text for terminals.

Never knows what a document means.
"""
