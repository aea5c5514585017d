"""What runs compiled kernels: devices, arrays, streams, the record of failed checks, the on-disk cache.

Leaves out how arguments are checked (`kdsl.launch`).
"""
