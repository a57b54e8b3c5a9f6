"""`trimtab admin load`: bursts of Deployments with quiet periods between them on a live cluster, to watch its scaling
and slack."""
