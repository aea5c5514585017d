"""The model: configuration, transformer (forward and backward), optimizer, decoding, checkpoints."""
