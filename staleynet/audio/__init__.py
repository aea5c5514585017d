"""Sound in and out: decoding, resampling, log-mel spectrograms, Griffin-Lim, WAV."""
