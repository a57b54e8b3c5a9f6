"""`trimtab prices import`: published price lists of clouds, from files that their own command lines and APIs write."""
