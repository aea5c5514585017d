"""The typed IR: node classes, printer, verifier, and the analyses that both targets share."""
