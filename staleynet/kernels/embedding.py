"""Look-up in an embedding table with learned positions, and the gradients of both, without atomics.

The gradient of the table goes through a compressed sparse row index that lists the places of every token, so that the order of addition is
fixed. The index comes from the host (`staleynet.ops.embedding.token_index`).
"""

from kdsl import (
    WARP_SIZE,
    DisjointSlice,
    Slice,
    SliceMut,
    elements,
    f32,
    i32,
    kernel,
    lane_index,
    row_index,
    rows,
    struct,
    thread_index,
    u32,
)


@struct
class Embedding:
    """A batch of token sequences, and the table they are looked up in."""

    sequences: u32
    """Number of sequences."""
    length: u32
    """Tokens of each sequence."""
    width: u32
    """Columns of an embedding."""
    vocabulary: u32
    """Rows of the table."""
    accumulate: u32
    """1 to add a gradient to what is there, 0 to overwrite it; the look-up does not use it."""


@kernel(
    grid=rows("len(tokens)"),
    requires=("len(y) == len(tokens) * p.width", "len(tokens) == p.sequences * p.length", "len(table) == p.vocabulary * p.width"),
)
def look_up(y: SliceMut[f32], tokens: Slice[i32], table: Slice[f32], p: Embedding) -> None:
    """A warp per token: y = table[token]."""
    place = row_index()
    if place in tokens:
        token = tokens[place]
        for column in range(lane_index(), p.width, WARP_SIZE):
            y[place * p.width + column] = table[token * p.width + column]


@kernel(
    grid=rows("len(tokens)"),
    requires=(
        "len(y) == len(tokens) * p.width",
        "len(tokens) == p.sequences * p.length",
        "len(table) == p.vocabulary * p.width",
        "len(positions) >= p.length * p.width",
    ),
)
def look_up_with_positions(y: SliceMut[f32], tokens: Slice[i32], table: Slice[f32], positions: Slice[f32], p: Embedding) -> None:
    """A warp per token: y = table[token] + positions[place in the sequence]."""
    place = row_index()
    if place in tokens:
        token, position = tokens[place], place % p.length
        for column in range(lane_index(), p.width, WARP_SIZE):
            y[place * p.width + column] = table[token * p.width + column] + positions[position * p.width + column]


@struct
class Table:
    """An embedding table, and what becomes of its gradient."""

    tokens: u32
    """Rows: the size of the vocabulary."""
    width: u32
    """Columns of an embedding."""
    accumulate: u32
    """1 to add the gradient to what is there, 0 to overwrite it."""


@kernel(
    grid=elements("d_table"),
    requires=("len(d_table) == p.tokens * p.width", "len(first) == p.tokens + 1", "len(dy) == len(place) * p.width"),
)
def embedding_gradient(d_table: DisjointSlice[f32], dy: Slice[f32], first: Slice[i32], place: Slice[i32], p: Table) -> None:
    """A thread per element (token and column): the sum of `dy` over the places of the token, ascending, set or added."""
    i = thread_index()
    if i in d_table:
        token, column = i // p.width, i % p.width
        total = f32(0)
        for n in range(first[token], first[token + 1]):
            total += dy[place[n] * p.width + column]
        d_table[i] = d_table[i] + total if p.accumulate != 0 else total


@kernel(
    grid=elements("d_positions"),
    requires=("len(d_positions) == p.length * p.width", "len(dy) == p.sequences * p.length * p.width"),
)
def position_gradient(d_positions: DisjointSlice[f32], dy: Slice[f32], p: Embedding) -> None:
    """A thread per element (position and column): the sum of `dy` over the sequences, ascending, set or added."""
    i = thread_index()
    if i in d_positions:
        total = f32(0)
        for sequence in range(p.sequences):
            total += dy[sequence * len(d_positions) + i]
        d_positions[i] = d_positions[i] + total if p.accumulate != 0 else total
