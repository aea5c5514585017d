"""Training: the loop, its log, its progress display and its loss curve."""
