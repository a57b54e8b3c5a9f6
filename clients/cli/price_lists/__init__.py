"""`trimtab admin import-prices`: published price lists of clouds, from files of their own programs."""
