"""From recordings to the tokens that training reads: catalogue, cache, sampler, and the built-in demo recording."""
