"""`python -m clients.cli`: the same as `trimtab`."""

from clients.cli import main

main()
