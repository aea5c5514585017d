"""The command `kdsl`: what it offers stands in `kdsl.cli.main`."""
