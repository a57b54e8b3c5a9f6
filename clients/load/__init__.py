"""`trimtab load`: bursts of Deployments and quiet between them, on a live cluster, to watch it grow, hold slack and
shrink."""
