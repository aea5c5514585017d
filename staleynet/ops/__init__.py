"""The safe way to every kernel: one function per launch, which checks the sizes the kernel depends on and then launches it.

The model, the tokenizer and the audio code call these and nothing else. Every function takes its outputs first and returns None
(`sum_of_squares` returns a number); arrays are one-dimensional, float32 unless said otherwise, and live on one device; shapes are keyword
arguments, and a matrix lies row by row. A size that does not fit raises `ValueError` (what this package checks) or `kdsl.LaunchError` (what
the kernel's contract checks) before anything is written. A size of 0 is no error.

Left out: shapes as objects, broadcasting, and any choice of device; an operation runs where its arrays live.
"""

from staleynet.ops.attention import causal_softmax, causal_softmax_backward
from staleynet.ops.elementwise import accumulate, add, add_bias, gelu, gelu_backward, rotary, scale
from staleynet.ops.embedding import TokenIndex, embed, embedding_gradient, position_gradient, token_index
from staleynet.ops.loss import cross_entropy, cross_entropy_backward
from staleynet.ops.matmul import Operand, Version, matmul, row_major, transposed
from staleynet.ops.normalization import rms_norm, rms_norm_backward, rms_norm_weight_gradient
from staleynet.ops.optimizer import AdamW, adamw, sum_of_squares
from staleynet.ops.signal import (
    codeword_update,
    frame,
    log_compress,
    nearest_codeword,
    overlap_add,
    phase_step,
    power_spectrum,
    subtract_codeword,
)

__all__ = [
    "AdamW",
    "Operand",
    "TokenIndex",
    "Version",
    "accumulate",
    "adamw",
    "add",
    "add_bias",
    "causal_softmax",
    "causal_softmax_backward",
    "codeword_update",
    "cross_entropy",
    "cross_entropy_backward",
    "embed",
    "embedding_gradient",
    "frame",
    "gelu",
    "gelu_backward",
    "log_compress",
    "matmul",
    "nearest_codeword",
    "overlap_add",
    "phase_step",
    "position_gradient",
    "power_spectrum",
    "rms_norm",
    "rms_norm_backward",
    "rms_norm_weight_gradient",
    "rotary",
    "row_major",
    "scale",
    "subtract_codeword",
    "sum_of_squares",
    "token_index",
    "transposed",
]
