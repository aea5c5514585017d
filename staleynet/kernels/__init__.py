"""The kernels of StaleyNET, one file per topic, written in kdsl's public surface only.

Each docstring names the pattern by which a kernel divides its work: a thread per element, a warp per row, a block per tile, or a fixed
number of blocks sweeping over the data. Elements are written through views that check every index; a sum is added in an order that depends
on shapes only, so that a kernel gives the same bits on every run. Nothing but `staleynet.ops` launches them: it checks what a contract
cannot say.
"""
