"""Our reference loop: snapshot, plan, act, again and again, on a live cluster. The command is `trimtab run`."""
