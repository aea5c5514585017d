"""The launches of `benchmarks/safety.py`: every kernel of the model, with the sizes of a training step of the configuration `small`, or of a larger batch."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import kdsl
from kdsl import bf16, f32

WIDTH, FEED_FORWARD, HEADS, HEAD_WIDTH, CONTEXT, VOCABULARY = 256, 1024, 4, 64, 512, 1024
"""Of the configuration `small`."""
SEQUENCES = {"small": 16, "large": 64}
"""Sequences of a batch."""
FRAME, HOP, BINS, CODEWORDS, COLUMNS = 1024, 256, 513, 256, 64
"""Of the spectra and the tokenizer."""
PARTS = 8
"""Parts along k of a gradient of weights."""


class Arrays:
    """The arrays of a device by name. Both builds of a kernel get the same ones."""

    def __init__(self, device: kdsl.Device) -> None:
        self.device = device
        self._made: dict[str, tuple[kdsl.Array, Any]] = {}
        self._converted: dict[str, Any] = {}

    def bf16(self, name: str, make: Callable[[], Any]) -> Any:
        """What is made of them in other types."""
        if name not in self._converted:
            self._converted[name] = make()
        return self._converted[name]

    def _get(self, name: str, make: Callable[[np.random.Generator], Any]) -> kdsl.Array:
        if name not in self._made:
            values = make(np.random.default_rng(len(self._made)))
            self._made[name] = (self.device.array(values), values)
        return self._made[name][0]

    def normal(self, name: str, *shape: int) -> kdsl.Array:
        """Numbers of f32, one after the other."""
        return self._get(f"{name} {shape}", lambda rng: _many(rng.standard_normal, shape))

    def positive(self, name: str, *shape: int) -> kdsl.Array:
        """The same from 0.5 to 1.5."""
        return self._get(f"{name} {shape}", lambda rng: _many(rng.random, shape) + np.float32(0.5))

    def below(self, name: str, limit: int, count: int) -> kdsl.Array:
        """Integers from 0 on."""
        return self._get(f"{name} {limit} {count}", lambda rng: rng.integers(0, limit, count).astype(np.int32))

    def listed(self, name: str, limit: int, count: int) -> tuple[kdsl.Array, kdsl.Array]:
        """For each of `limit` numbers where it stands among `count` random ones: the first of its places in a list, and the list."""

        def numbers() -> Any:
            return np.random.default_rng(1).integers(0, limit, count)

        def first(_: Any) -> Any:
            return np.concatenate([[0], np.cumsum(np.bincount(numbers(), minlength=limit))]).astype(np.int32)

        places = self._get(f"{name} places", lambda _: np.argsort(numbers(), kind="stable").astype(np.int32))
        return self._get(f"{name} first", first), places

    def restore(self) -> None:
        """Write again what they held at first."""
        for array, values in self._made.values():
            array.copy_from(values)

    def contents(self) -> list[Any]:
        """What they hold."""
        return [array.numpy() for array, _ in self._made.values()]

    def clear(self) -> None:
        """Forget them."""
        self._made.clear()
        self._converted.clear()


def _many(draw: Callable[..., Any], shape: tuple[int, ...]) -> Any:
    """Random numbers, which come again after a million."""
    count = math.prod(shape)
    return np.resize(draw(min(count, 1 << 20), dtype=np.float32), count)


@dataclass(frozen=True)
class Case:
    """A launch."""

    kernel: kdsl.Kernel
    arguments: tuple[Any, ...]

    def __call__(self) -> None:
        """Launch it."""
        self.kernel(*self.arguments)


def fresh(unchecked: bool) -> dict[str, Callable[[Arrays, int], Case]]:
    """The cases with kernels of their own, which have not been compiled yet, and will be with checks or without; a case is made of arrays and sequences."""
    for name in [name for name in sys.modules if name.split(".")[0] == "staleynet"]:
        del sys.modules[name]
    kdsl.unchecked(unchecked)
    return {**_rows(), **_elements(), **_signal(), **_products(), **_around_products(), **_tensor_products()}


def _rows() -> dict[str, Callable[[Arrays, int], Case]]:
    from staleynet.kernels import attention, loss, normalization

    def scores(kernel: kdsl.Kernel, *names: str) -> Callable[[Arrays, int], Case]:
        def make(of: Arrays, sequences: int) -> Case:
            rows = sequences * HEADS * CONTEXT
            p = attention.ScoreRows(rows=rows, queries=CONTEXT, length=CONTEXT, scale=0.125)
            return Case(kernel, (*(of.normal(name, rows, CONTEXT) for name in names), p))

        return make

    def logits(kernel: kdsl.Kernel, losses: bool) -> Callable[[Arrays, int], Case]:
        def make(of: Arrays, sequences: int) -> Case:
            rows = sequences * CONTEXT
            p = loss.Logits(rows=rows, classes=VOCABULARY, scale=1 / rows)
            out = (of.normal("losses", rows),) if losses else ()
            return Case(kernel, (*out, of.normal("logits", rows, VOCABULARY), of.below("targets", VOCABULARY, rows), p))

        return make

    def norm(of: Arrays, sequences: int) -> Case:
        rows = sequences * CONTEXT
        p = normalization.Normalization(rows=rows, columns=WIDTH, epsilon=1e-5, accumulate=0)
        arrays = of.normal("y", rows, WIDTH), of.positive("factors", rows), of.normal("x", rows, WIDTH), of.normal("weight", WIDTH)
        return Case(normalization.rms_norm, (*arrays, p))

    def norm_backward(of: Arrays, sequences: int) -> Case:
        rows = sequences * CONTEXT
        p = normalization.Normalization(rows=rows, columns=WIDTH, epsilon=1e-5, accumulate=1)
        matrices = (of.normal(name, rows, WIDTH) for name in ("dx", "dy", "x"))
        return Case(normalization.rms_norm_backward, (*matrices, of.normal("weight", WIDTH), of.positive("factors", rows), p))

    def sums(of: Arrays, sequences: int) -> Any:
        rows = sequences * CONTEXT
        chunks = rows // normalization.ROWS_PER_CHUNK
        return (
            rows,
            chunks,
            of.normal("partial", chunks, WIDTH),
            normalization.ColumnSum(rows=rows, columns=WIDTH, chunks=chunks, accumulate=0),
        )

    def weight_partial(of: Arrays, sequences: int) -> Case:
        rows, _, partial, p = sums(of, sequences)
        arrays = of.normal("dy", rows, WIDTH), of.normal("x", rows, WIDTH), of.positive("factors", rows)
        return Case(normalization.rms_norm_weight_partial, (partial, *arrays, p))

    def add_chunks(of: Arrays, sequences: int) -> Case:
        _, _, partial, p = sums(of, sequences)
        return Case(normalization.add_chunks, (of.normal("sums", WIDTH), partial, p))

    return {
        "causal_softmax": scores(attention.causal_softmax, "scores"),
        "causal_softmax_backward": scores(attention.causal_softmax_backward, "gradient", "probabilities"),
        "cross_entropy": logits(loss.cross_entropy, True),
        "cross_entropy_backward": logits(loss.cross_entropy_backward, False),
        "rms_norm": norm,
        "rms_norm_backward": norm_backward,
        "rms_norm_weight_partial": weight_partial,
        "add_chunks": add_chunks,
    }


def _elements() -> dict[str, Callable[[Arrays, int], Case]]:
    from staleynet.kernels import elementwise, embedding, optimizer

    def plain(kernel: kdsl.Kernel, columns: int, *names: str, more: tuple[Any, ...] = ()) -> Callable[[Arrays, int], Case]:
        return lambda of, sequences: Case(kernel, (*(of.positive(name, sequences * CONTEXT, columns) for name in names), *more))

    def add_bias(of: Arrays, sequences: int) -> Case:
        rows = sequences * CONTEXT
        matrices = (of.normal(name, rows, FEED_FORWARD) for name in ("y", "x"))
        return Case(elementwise.add_bias, (*matrices, of.normal("bias", FEED_FORWARD), elementwise.Matrix(rows=rows, columns=FEED_FORWARD)))

    def rotary(of: Arrays, sequences: int) -> Case:
        rows, half = sequences * CONTEXT, HEAD_WIDTH // 2
        p = elementwise.Rotation(rows=rows, length=CONTEXT, width=3 * WIDTH, heads=2 * HEADS, half=half, direction=1.0)
        return Case(
            elementwise.rotary, (of.normal("x", rows, 3 * WIDTH), of.normal("cosines", CONTEXT, half), of.normal("sines", CONTEXT, half), p)
        )

    def look_up(kernel: kdsl.Kernel, positions: bool) -> Callable[[Arrays, int], Case]:
        def make(of: Arrays, sequences: int) -> Case:
            rows = sequences * CONTEXT
            p = embedding.Embedding(sequences=sequences, length=CONTEXT, width=WIDTH, vocabulary=VOCABULARY, accumulate=0)
            table = of.normal("table", VOCABULARY, WIDTH)
            more = (of.normal("positions", CONTEXT, WIDTH),) if positions else ()
            return Case(kernel, (of.normal("y", rows, WIDTH), of.below("tokens", VOCABULARY, rows), table, *more, p))

        return make

    def embedding_gradient(of: Arrays, sequences: int) -> Case:
        rows = sequences * CONTEXT
        p = embedding.Table(tokens=VOCABULARY, width=WIDTH, accumulate=0)
        index = of.listed("tokens", VOCABULARY, rows)
        return Case(embedding.embedding_gradient, (of.normal("table", VOCABULARY, WIDTH), of.normal("dy", rows, WIDTH), *index, p))

    def position_gradient(of: Arrays, sequences: int) -> Case:
        p = embedding.Embedding(sequences=sequences, length=CONTEXT, width=WIDTH, vocabulary=VOCABULARY, accumulate=0)
        return Case(embedding.position_gradient, (of.normal("positions", CONTEXT, WIDTH), of.normal("dy", sequences * CONTEXT, WIDTH), p))

    def sum_of_squares(of: Arrays, sequences: int) -> Case:
        return Case(optimizer.sum_of_squares, (of.normal("partial", optimizer.BLOCKS), of.normal("x", sequences * CONTEXT, FEED_FORWARD)))

    step = optimizer.AdamWStep(
        learning_rate=1e-9, keep1=0.9, take1=0.1, keep2=0.95, take2=0.05, epsilon=1e-8, weight_decay=0.1, correction1=0.5, correction2=0.5, gradient_scale=1.0
    )  # fmt: skip
    return {
        "add": plain(elementwise.add, WIDTH, "y", "a", "b"),
        "accumulate": plain(elementwise.accumulate, WIDTH, "y", "x"),
        "scale": plain(elementwise.scale, WIDTH, "y", "x", more=(0.5,)),
        "add_bias": add_bias,
        "gelu": plain(elementwise.gelu, FEED_FORWARD, "y", "x"),
        "gelu_backward": plain(elementwise.gelu_backward, FEED_FORWARD, "dx", "x", "dy"),
        "rotary": rotary,
        "look_up": look_up(embedding.look_up, False),
        "look_up_with_positions": look_up(embedding.look_up_with_positions, True),
        "embedding_gradient": embedding_gradient,
        "position_gradient": position_gradient,
        "sum_of_squares": sum_of_squares,
        "adamw": plain(optimizer.adamw, WIDTH, "weight", "mean", "square", "gradient", more=(step,)),
    }


def _signal() -> dict[str, Callable[[Arrays, int], Case]]:
    from staleynet.kernels import signal

    def frame(of: Arrays, sequences: int) -> Case:
        count = sequences * 256
        arrays = of.normal("frames", count, FRAME), of.normal("signal", (count - 1) * HOP + FRAME), of.positive("window", FRAME)
        return Case(signal.frame, (*arrays, signal.Framing(count=count, size=FRAME, hop=HOP)))

    def overlap_add(of: Arrays, sequences: int) -> Case:
        count = sequences * 256
        arrays = of.normal("signal", (count - 1) * HOP + FRAME), of.normal("frames", count, FRAME), of.positive("window", FRAME)
        return Case(signal.overlap_add, (*arrays, signal.Framing(count=count, size=FRAME, hop=HOP)))

    def power_spectrum(of: Arrays, sequences: int) -> Case:
        frames = sequences * 256
        p = signal.Spectrum(frames=frames, bins=BINS, inertia=0.0)
        return Case(signal.power_spectrum, (of.normal("power", frames, BINS), of.normal("spectrum", frames, 2 * BINS), p))

    def phase_step(of: Arrays, sequences: int) -> Case:
        frames = sequences * 256
        spectra = (of.normal(name, frames, 2 * BINS) for name in ("spectrum", "rebuilt", "previous"))
        return Case(
            signal.phase_step, (*spectra, of.positive("magnitude", frames, BINS), signal.Spectrum(frames=frames, bins=BINS, inertia=0.4))
        )

    def log_compress(of: Arrays, sequences: int) -> Case:
        size = sequences * 256, BINS
        return Case(signal.log_compress, (of.normal("y", *size), of.positive("power", *size), 1e-5))

    def nearest_codeword(of: Arrays, sequences: int) -> Case:
        rows = sequences * CONTEXT
        p = signal.Distances(rows=rows, codewords=CODEWORDS)
        return Case(signal.nearest_codeword, (of.below("index", CODEWORDS, rows), of.normal("distances", rows, CODEWORDS), p))

    def codeword_update(of: Arrays, sequences: int) -> Case:
        rows = sequences * CONTEXT
        arrays = of.normal("codebook", CODEWORDS, COLUMNS), of.normal("vectors", rows, COLUMNS), *of.listed("members", CODEWORDS, rows)
        return Case(signal.codeword_update, (*arrays, signal.Codebook(codewords=CODEWORDS, columns=COLUMNS)))

    def subtract_codeword(of: Arrays, sequences: int) -> Case:
        rows = sequences * CONTEXT
        arrays = of.normal("residual", rows, COLUMNS), of.normal("codebook", CODEWORDS, COLUMNS), of.below("index", CODEWORDS, rows)
        return Case(signal.subtract_codeword, (*arrays, signal.Rows(rows=rows, columns=COLUMNS, codewords=CODEWORDS)))

    made = (frame, overlap_add, power_spectrum, phase_step, log_compress, nearest_codeword, codeword_update, subtract_codeword)
    return {make.__name__: make for make in made}


def _products() -> dict[str, Callable[[Arrays, int], Case]]:
    """Products in fp32 as the model began with: from the rows of a layer's input to its queries, keys and values."""
    from staleynet.kernels import matmul, matmul_cached

    def product(kernel: kdsl.Kernel) -> Callable[[Arrays, int], Case]:
        def make(of: Arrays, sequences: int) -> Case:
            m, n, k = sequences * CONTEXT, 3 * WIDTH, WIDTH
            batch = dict.fromkeys(("a_sequence", "a_head", "b_sequence", "b_head", "c_sequence", "c_head"), 0)
            strides = {"a_row": k, "a_column": 1, "b_row": n, "b_column": 1, "c_row": n, "c_column": 1}
            p = matmul.Product(sequences=1, heads=1, m=m, n=n, k=k, accumulate=0, alpha=1.0, **batch, **strides)
            return Case(kernel, (of.normal("c", m, n), of.normal("a", m, k), of.normal("b", k, n), p))

        return make

    blocked = matmul_cached.cache_blocked(matmul_cached.Schedule(128, 128, 128))
    return {
        "matmul_naive": product(matmul.matmul_naive),
        "matmul_tiled": product(matmul.matmul_tiled),
        "matmul_register_blocked": product(matmul.matmul_register_blocked),
        "matmul_cache_blocked": product(blocked),
    }


def _around_products() -> dict[str, Callable[[Arrays, int], Case]]:
    """What comes before and after a product on tensor cores."""
    from staleynet.kernels import convert

    def pack(turned: bool) -> Callable[[Arrays, int], Case]:
        kernel = convert.pack(f32, f32, turned=turned, round_to_tf32=True)

        def make(of: Arrays, sequences: int) -> Case:
            shape = (1, 1, sequences * CONTEXT, WIDTH)
            strides = (0, 0, 1, shape[2]) if turned else (0, 0, WIDTH, 1)
            return Case(kernel, (of.normal("packed", *shape).reshape(shape), of.normal("x", *shape).strided(shape, strides)))

        return make

    def turned(kernel: kdsl.Kernel) -> Callable[[Arrays, int], Case]:
        def make(of: Arrays, sequences: int) -> Case:
            rows = sequences * CONTEXT
            y, x = of.normal("packed", rows, WIDTH).reshape(1, 1, WIDTH, rows), of.normal("x", rows, WIDTH).reshape(1, 1, rows, WIDTH)
            return Case(kernel, (y, x))

        return make

    def combine(bias: bool, each: int) -> Callable[[Arrays, int], Case]:
        parts = 1 if bias else 4 if each == 4 else 8
        kernel = convert.combine(f32, parts, bias=bias, gelu=bias, each=each)

        def make(of: Arrays, sequences: int) -> Case:
            rows = sequences * CONTEXT if bias else 4 * sequences * CONTEXT // 32
            c, shape = of.normal("c", rows, FEED_FORWARD), (parts, 1, rows, FEED_FORWARD)
            p = convert.Ending(alpha=1.0, accumulate=0)
            return Case(
                kernel, (c.reshape(1, 1, rows, FEED_FORWARD), of.normal("parts", *shape).reshape(shape), of.normal("bias", FEED_FORWARD), p)
            )

        return make

    return {
        "matmul_pack": pack(False),
        "matmul_pack, turned": pack(True),
        "matmul_turn": turned(convert.turn()),
        "matmul_turn_small": turned(convert.turn_small()),
        "matmul_combine": combine(False, 4),
        "matmul_combine, single": combine(False, 1),
        "matmul_combine, bias and GELU": combine(True, 4),
    }


def _tensor_products() -> dict[str, Callable[[Arrays, int], Case]]:
    """Products on tensor cores, and those with warps that copy."""
    from staleynet.kernels import (
        convert,
        matmul_3xtf32,
        matmul_border,
        matmul_held,
        matmul_hopper,
        matmul_mma,
        matmul_parts,
        matmul_pipelined,
        matmul_tf32,
        matmul_tf32_beside,
        matmul_wide,
        tf32_tiles,
    )
    from staleynet.ops import matmul_operands, matmul_paths, schedules

    n, k = FEED_FORWARD, WIDTH

    def matrix(of: Arrays, name: str, rows: int, columns: int, element: Any) -> Any:
        x = matmul_operands.Matrix(of.normal(name, rows, columns), (1, 1, rows, columns), (0, 0, columns, 1))
        return x if element is f32 else of.bf16(f"{name} {rows} {columns}", lambda: matmul_operands.packed(x, element))

    def operands(of: Arrays, sequences: int, element: Any, k: int = k) -> tuple[Any, Any, Any]:
        m = sequences * CONTEXT
        return matrix(of, "c", m, n, element), matrix(of, "a", m, k, element), matrix(of, "b", n, k, element)

    def from_tile_to_tile(of: Arrays, sequences: int) -> Case:
        c, a, b = operands(of, sequences, bf16)
        return Case(mma_kernel, (c.array, a.array, b.array, matmul_paths._work(c, schedules.SCHEDULES["mma"]["128x256"], 1.0, 0)))

    def wide(name: str, b_across: bool, k: int = k) -> Callable[[Arrays, int], Case]:
        schedule = schedules.SCHEDULES["fp32"][name]
        kernel = matmul_wide.product(schedule, a_across=False, b_across=b_across, rest=k % schedule.depth != 0)

        def make(of: Arrays, sequences: int) -> Case:
            c, a, b = operands(of, sequences, f32, k)
            if b_across:
                b = matrix(of, "b", k, n, f32)
            return Case(kernel, (c.array, a.array, b.array, convert.Ending(alpha=1.0, accumulate=0)))

        return make

    def hopper(element: Any, name: str, gelu: bool) -> Callable[[Arrays, int], Case]:
        schedule = schedules.SCHEDULES["wgmma"][name]
        kernel = matmul_hopper.product(element, element, schedule, bias=gelu, gelu=gelu)

        def make(of: Arrays, sequences: int) -> Case:
            c, a, b = operands(of, sequences, element)
            arrays = [a.array, b.array]
            if element is f32:
                arrays = [matmul_paths._rounding(a, schedule.rows), matmul_paths._rounding(b, schedule.columns)]
            return Case(kernel, (c.array, *arrays, of.normal("bias", n), matmul_paths._work(c, schedule, 1.0, 0)))

        return make

    def held(of: Arrays, sequences: int) -> Case:
        c, a, b = operands(of, sequences, bf16)
        work = matmul_hopper.Work(blocks=matmul_held.blocks_of(*c.shape[2:], 132), alpha=1.0, accumulate=0)
        return Case(held_kernel, (c.array, a.array, b.array, of.normal("bias", n), work))

    def pipelined(of: Arrays, sequences: int) -> Case:
        c, a, b = operands(of, sequences, f32)
        return Case(pipelined_kernel, (c.array, a.array, b.array, convert.Ending(alpha=1.0, accumulate=0)))

    def border(of: Arrays, sequences: int) -> Case:
        c, a, _ = operands(of, sequences, f32)
        ending = matmul_border.Border(alpha=1.0, accumulate=0, rows=sequences * CONTEXT - 128, columns=n - 16)
        return Case(border_kernel, (c.array, a.array, matrix(of, "b", k, n, f32).array, ending))

    def across(of: Arrays, sequences: int) -> Case:
        c, b = matrix(of, "c", k, n, f32), matrix(of, "b", sequences * CONTEXT, n, f32)
        maps = [matmul_paths._rounding(x, tf32_tiles.BOX) for x in (matrix(of, "a", sequences * CONTEXT, k, f32), b)]
        none = matmul_operands.no_matrix(c.base.device)
        return Case(across_kernel, (c.array, *maps, none, none, matmul_paths._work(c, schedules.SCHEDULES["tf32"]["256x128"], 1.0, 0)))

    def counters(of: Arrays, name: str) -> Any:
        """Counters so high that nothing is left to be copied, and nobody waits."""
        count = PARTS * n // 256 * matmul_tf32_beside.LINE
        return of.bf16(name, lambda: of.device.array(np.full(count, 1 << 30, np.uint32)))

    def heads(of: Arrays, sequences: int) -> Case:
        rows = sequences * CONTEXT
        y, x = matrix(of, "copy", n, rows, f32), matrix(of, "b", rows, n, f32)
        p = convert.Heads(part=rows // PARTS, head=512, blocks=PARTS * 8 * n // 64)
        return Case(heads_kernel, (y.array, x.array, counters(of, "of heads"), p))

    def beside(of: Arrays, sequences: int) -> Case:
        """With the copy made."""
        rows, c = sequences * CONTEXT, of.normal("sums", PARTS, k, n).reshape(PARTS, 1, k, n)
        y, x, a = matrix(of, "copy", n, rows, f32), matrix(of, "b", rows, n, f32), matrix(of, "a", rows, k, f32)
        copy = kdsl.tensor_map(y.array, (1, 1, tf32_tiles.BOX, tf32_tiles.BOX), swizzle=128)
        maps = matmul_paths._rounding(a, tf32_tiles.BOX), copy, matmul_paths._rounding(x, tf32_tiles.BOX)
        work = matmul_hopper.Work(blocks=PARTS * k // 128 * n // 256, alpha=1.0, accumulate=0)
        return Case(beside_kernel, (c, *maps, counters(of, "of products"), work))

    def three(of: Arrays, sequences: int) -> Case:
        c, a, b = operands(of, sequences, f32)
        return Case(three_kernel, (c.array, a.array, b.array, matmul_paths._work(c, schedules.SCHEDULES["3xtf32"]["128x128"], 1.0, 0)))

    def in_parts(kernel: kdsl.Kernel, adds: bool) -> Callable[[Arrays, int], Case]:
        """A gradient of weights, or the sum of its parts."""
        schedule = schedules.SCHEDULES["parts"]["64x128"]

        def make(of: Arrays, sequences: int) -> Case:
            c, a, b = (
                matrix(of, name, rows, columns, bf16)
                for name, rows, columns in (("c", k, n), ("a", sequences * CONTEXT, k), ("b", sequences * CONTEXT, n))
            )
            shape = (PARTS, -(-k // schedule.rows) * -(-n // schedule.columns), schedule.slots, matmul_parts.NUMBERS)
            sums = of.normal("sums", *shape).reshape(shape)
            work = matmul_hopper.Work(blocks=PARTS * shape[1], alpha=1.0, accumulate=0)
            return Case(kernel, (c.array, sums, of.normal("bias", n), work) if adds else (sums, a.array, b.array, work))

        return make

    held_kernel = matmul_held.product(bf16, bf16, 4, bias=True)
    mma_kernel = matmul_mma.product(bf16, bf16, schedules.SCHEDULES["mma"]["128x256"], each=8)
    pipelined_kernel = matmul_pipelined.product(
        schedules.SCHEDULES["pipelined"]["pipelined 64x128"], a_across=False, b_across=False, rest=False
    )
    border_kernel = matmul_border.product_of_border(a_across=False, rest=False)
    across_kernel = matmul_tf32.product(schedules.SCHEDULES["tf32"]["256x128"], b_across=True, c_across=False)
    heads_kernel = convert.turn_heads()
    beside_kernel = matmul_tf32_beside.product(schedules.SCHEDULES["tf32"]["128x256 beside"], c_across=False, parts=PARTS, heads=16)
    three_kernel = matmul_3xtf32.product(schedules.SCHEDULES["3xtf32"]["128x128"], a_across=False, b_across=False)
    parts_kernel = matmul_parts.sums_of_parts(bf16, schedules.SCHEDULES["parts"]["64x128"], PARTS, a_across=True, b_across=True)
    sum_kernel = matmul_parts.sum_of_parts(bf16, schedules.SCHEDULES["parts"]["64x128"], PARTS, pairs=True)
    return {
        "matmul_mma": from_tile_to_tile,
        "matmul_wide": wide("128x256", False),
        "matmul_wide, across": wide("128x256", True),
        "matmul_wide, rest": wide("128x256", False, k=WIDTH - 4),
        "matmul_hopper, bf16": hopper(bf16, "128x256", False),
        "matmul_hopper, bf16, GELU": hopper(bf16, "128x128 in turn", True),
        "matmul_hopper, tf32": hopper(f32, "128x256", False),
        "matmul_held": held,
        "matmul_pipelined": pipelined,
        "matmul_border": border,
        "matmul_parts": in_parts(parts_kernel, False),
        "matmul_sum_of_parts": in_parts(sum_kernel, True),
        "matmul_tf32": across,
        "matmul_turn_heads": heads,
        "matmul_tf32_beside": beside,
        "matmul_3xtf32": three,
    }
