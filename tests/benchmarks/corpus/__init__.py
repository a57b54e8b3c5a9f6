"""The judge of changes to decisions: fixed clusters, what their plans are worth, and how much worse one may become."""
