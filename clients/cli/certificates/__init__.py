"""`trimtab certificates`: a CA of one's own, and certificates of the parts of Trimtab."""
