"""Mel frames become tokens and back: k-means codebooks, residual and product quantisation, the order of tokens in the model's stream."""
