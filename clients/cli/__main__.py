"""`python -m trimtab.clients.cli`: the same as `trimtab`."""

from trimtab.clients.cli import main

main()
