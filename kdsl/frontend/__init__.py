"""From the source of a Python function to the typed IR, or to an error that says what, where, and what to do."""
