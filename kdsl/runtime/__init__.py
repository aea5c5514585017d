"""Devices, arrays, streams, the record of failed checks and the on-disk cache: what runs compiled kernels. Leaves out how arguments are checked (`kdsl.launch`)."""
