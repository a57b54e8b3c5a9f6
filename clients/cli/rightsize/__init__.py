"""`trimtab rightsize`: which pools of machines would hold a cluster's pods for the least money."""
