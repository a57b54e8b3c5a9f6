"""Generated messages and stubs of the Trimtab contract."""
