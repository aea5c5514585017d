"""Every operation refuses sizes that do not fit its arrays, and writes nothing then: each array of a valid call in turn is made one element
shorter and one longer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from staleynet import ops

Arrays = Mapping[str, kdsl.Array]
REFUSALS = (ValueError, kdsl.LaunchError)
POISON = 77


@dataclass(frozen=True)
class Case:
    """A valid call; `lengths` lists its outputs first."""

    call: Callable[[Arrays], None]
    """The operation, given its arrays by name."""
    lengths: dict[str, int]
    """Elements of each array."""
    outputs: int = 1
    """How many of the arrays are written."""
    integers: frozenset[str] = field(default_factory=frozenset)
    """Arrays of int32."""
    longer: frozenset[str] = field(default_factory=frozenset)
    """Arrays that may be longer than the call needs."""
    shorter: frozenset[str] = field(default_factory=frozenset)
    """Arrays that may be shorter than the sizes allow."""


def operand(array: kdsl.Array, columns: int, rows: int) -> ops.Operand:
    return ops.row_major(array, columns, sequence=rows * columns)


def index(a: Arrays) -> ops.TokenIndex:
    return ops.TokenIndex(a["first"], a["place"])


SCORES = {"sequences": 2, "heads": 3, "length": 5}
MATRIX = {"rows": 4, "columns": 6}
BATCH = {"sequences": 2, "length": 5, "width": 3}
FRAMING = {"count": 4, "size": 8, "hop": 3}
SPECTRA = {"frames": 4, "bins": 5}
SETTINGS = ops.AdamW(learning_rate=0.1, beta1=0.9, beta2=0.9, epsilon=1e-8, weight_decay=0.0, step=1)

CASES = {
    "matmul": Case(
        lambda a: ops.matmul(operand(a["c"], 6, 4), operand(a["a"], 5, 4), operand(a["b"], 6, 5), m=4, n=6, k=5, sequences=2),
        {"c": 48, "a": 40, "b": 60},
        longer=frozenset("cab"),
    ),
    "causal_softmax": Case(lambda a: ops.causal_softmax(a["y"], a["x"], **SCORES, scale=1.0), {"y": 150, "x": 150}),
    "causal_softmax_backward": Case(
        lambda a: ops.causal_softmax_backward(a["ds"], a["p"], a["dp"], **SCORES, scale=1.0), {"ds": 150, "p": 150, "dp": 150}
    ),
    "cross_entropy": Case(
        lambda a: ops.cross_entropy(a["losses"], a["logits"], a["targets"], rows=4, classes=6),
        {"losses": 4, "logits": 24, "targets": 4},
        integers=frozenset({"targets"}),
    ),
    "cross_entropy_backward": Case(
        lambda a: ops.cross_entropy_backward(a["d"], a["logits"], a["targets"], rows=4, classes=6, scale=1.0),
        {"d": 24, "logits": 24, "targets": 4},
        integers=frozenset({"targets"}),
    ),
    "adamw": Case(lambda a: ops.adamw(a["w"], a["m"], a["v"], a["g"], SETTINGS), {"w": 9, "m": 9, "v": 9, "g": 9}, outputs=3),
    "add": Case(lambda a: ops.add(a["y"], a["a"], a["b"]), {"y": 9, "a": 9, "b": 9}),
    "accumulate": Case(lambda a: ops.accumulate(a["y"], a["x"]), {"y": 9, "x": 9}),
    "scale": Case(lambda a: ops.scale(a["y"], a["x"], 2.0), {"y": 9, "x": 9}),
    "gelu": Case(lambda a: ops.gelu(a["y"], a["x"]), {"y": 9, "x": 9}),
    "gelu_backward": Case(lambda a: ops.gelu_backward(a["dx"], a["x"], a["dy"]), {"dx": 9, "x": 9, "dy": 9}),
    "add_bias": Case(lambda a: ops.add_bias(a["y"], a["x"], a["bias"], **MATRIX), {"y": 24, "x": 24, "bias": 6}),
    "rotary": Case(
        lambda a: ops.rotary(a["x"], a["cosines"], a["sines"], rows=4, length=2, width=9, heads=2, head_width=4),
        {"x": 36, "cosines": 4, "sines": 4},
    ),
    "rms_norm": Case(
        lambda a: ops.rms_norm(a["y"], a["r"], a["x"], a["w"], **MATRIX, epsilon=1e-5), {"y": 24, "r": 4, "x": 24, "w": 6}, outputs=2
    ),
    "rms_norm_backward": Case(
        lambda a: ops.rms_norm_backward(a["dx"], a["dy"], a["x"], a["w"], a["r"], **MATRIX), {"dx": 24, "dy": 24, "x": 24, "w": 6, "r": 4}
    ),
    "rms_norm_weight_gradient": Case(
        lambda a: ops.rms_norm_weight_gradient(a["dw"], a["dy"], a["x"], a["r"], **MATRIX), {"dw": 6, "dy": 24, "x": 24, "r": 4}
    ),
    "embed": Case(
        lambda a: ops.embed(a["y"], a["tokens"], a["table"], None, **BATCH, vocabulary=7),
        {"y": 30, "tokens": 10, "table": 21},
        integers=frozenset({"tokens"}),
    ),
    "embed with positions": Case(
        lambda a: ops.embed(a["y"], a["tokens"], a["table"], a["positions"], **BATCH, vocabulary=7),
        {"y": 30, "tokens": 10, "table": 21, "positions": 15},
        integers=frozenset({"tokens"}),
        longer=frozenset({"positions"}),
    ),
    "embedding_gradient": Case(
        lambda a: ops.embedding_gradient(a["d"], a["dy"], index(a), vocabulary=7, width=3),
        {"d": 21, "dy": 30, "first": 8, "place": 10},
        integers=frozenset({"first", "place"}),
    ),
    "position_gradient": Case(lambda a: ops.position_gradient(a["d"], a["dy"], **BATCH), {"d": 15, "dy": 30}, longer=frozenset({"d"})),
    "frame": Case(
        lambda a: ops.frame(a["frames"], a["signal"], a["window"], **FRAMING),
        {"frames": 32, "signal": 17, "window": 8},
        longer=frozenset({"signal"}),
    ),
    "overlap_add": Case(
        lambda a: ops.overlap_add(a["signal"], a["frames"], a["window"], **FRAMING),
        {"signal": 17, "frames": 32, "window": 8},
        shorter=frozenset({"signal"}),
    ),
    "power_spectrum": Case(lambda a: ops.power_spectrum(a["power"], a["spectrum"], **SPECTRA), {"power": 20, "spectrum": 40}),
    "log_compress": Case(lambda a: ops.log_compress(a["y"], a["x"], floor=1e-5), {"y": 9, "x": 9}),
    "phase_step": Case(
        lambda a: ops.phase_step(a["spectrum"], a["rebuilt"], a["previous"], a["magnitude"], **SPECTRA, momentum=0.9),
        {"spectrum": 40, "rebuilt": 40, "previous": 40, "magnitude": 20},
    ),
    "nearest_codeword": Case(
        lambda a: ops.nearest_codeword(a["index"], a["distances"], rows=4, codewords=6),
        {"index": 4, "distances": 24},
        integers=frozenset({"index"}),
    ),
    "codeword_update": Case(
        lambda a: ops.codeword_update(a["book"], a["vectors"], index(a), codewords=7, columns=3),
        {"book": 21, "vectors": 30, "first": 8, "place": 10},
        integers=frozenset({"first", "place"}),
    ),
    "subtract_codeword": Case(
        lambda a: ops.subtract_codeword(a["residual"], a["book"], a["index"], **MATRIX),
        {"residual": 24, "index": 4, "book": 18},
        integers=frozenset({"index"}),
        longer=frozenset({"book"}),
        shorter=frozenset({"book"}),  # its length is the number of codewords, which no size says
    ),
}


@pytest.fixture(params=kdsl.testing.devices(), ids=str)
def device(request: pytest.FixtureRequest) -> kdsl.Device:
    found: kdsl.Device = request.param
    return found


def arrays(device: kdsl.Device, case: Case, change: Mapping[str, int]) -> dict[str, kdsl.Array]:
    """The arrays of a call, one of them longer or shorter; outputs hold POISON, inputs zeros."""
    made = {}
    for position, (name, length) in enumerate(case.lengths.items()):
        dtype = np.int32 if name in case.integers else np.float32
        value = POISON if position < case.outputs else 0
        made[name] = device.array(np.full(length + change.get(name, 0), value, dtype))
    return made


def mistakes() -> list[Any]:
    """Each case with each of its arrays, one shorter and one longer, where that is a mistake."""
    return [
        pytest.param(case, array, change, id=f"{name}: {array}{change:+d}")
        for name, case in CASES.items()
        for array in case.lengths
        for change, allowed in ((-1, case.shorter), (1, case.longer))
        if array not in allowed
    ]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_valid_call_writes(device: kdsl.Device, case: Case) -> None:
    made = arrays(device, case, {})
    case.call(made)
    device.synchronize()


@pytest.mark.parametrize(("case", "array", "change"), mistakes())
def test_a_wrong_length_is_refused_and_nothing_is_written(device: kdsl.Device, case: Case, array: str, change: int) -> None:
    made = arrays(device, case, {array: change})
    with pytest.raises(REFUSALS):
        case.call(made)
    for name in list(case.lengths)[: case.outputs]:
        assert (made[name].numpy() == POISON).all(), f"{name} was written"


@pytest.mark.parametrize("size", [-1, 2**32, 1.5])
def test_a_size_that_no_kernel_can_take(device: kdsl.Device, size: Any) -> None:
    x = device.array(np.zeros(4, np.float32))
    t = device.array(np.zeros(4, np.int32))
    calls: list[Callable[[], None]] = [
        lambda: ops.matmul(ops.row_major(x, 2), ops.row_major(x, 2), ops.row_major(x, 2), m=size, n=2, k=2),
        lambda: ops.causal_softmax(x, x, sequences=1, heads=1, length=size, scale=1.0),
        lambda: ops.cross_entropy(x, x, t, rows=size, classes=1),
        lambda: ops.add_bias(x, x, x, rows=size, columns=1),
        lambda: ops.rms_norm(x, x, x, x, rows=size, columns=1, epsilon=1e-5),
        lambda: ops.embed(x, t, x, None, sequences=size, length=1, width=1, vocabulary=4),
        lambda: ops.frame(x, x, x, count=size, size=1, hop=1),
        lambda: ops.nearest_codeword(t, x, rows=size, codewords=1),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="must be"):
            call()


def test_sizes_of_zero_that_have_no_meaning(device: kdsl.Device) -> None:
    x = device.array(np.zeros(0, np.float32))
    t = device.array(np.zeros(0, np.int32))
    calls: list[Callable[[], None]] = [
        lambda: ops.cross_entropy(x, x, t, rows=0, classes=0),
        lambda: ops.rms_norm(x, x, x, x, rows=0, columns=0, epsilon=1e-5),
        lambda: ops.nearest_codeword(t, x, rows=0, codewords=0),
        lambda: ops.frame(x, x, x, count=0, size=0, hop=1),
        lambda: ops.overlap_add(x, x, x, count=0, size=1, hop=0),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="between 1 and"):
            call()


def test_matmul_refuses_operands_that_make_no_sense(device: kdsl.Device) -> None:
    c, a, b = (device.array(np.full(16, POISON, np.float32)) for _ in range(3))
    good = {"m": 2, "n": 2, "k": 2}
    left, right = ops.row_major(a, 2), ops.row_major(b, 2)
    with pytest.raises(ValueError, match="coincide"):
        ops.matmul(ops.row_major(c, 1), left, right, **good)
    with pytest.raises(ValueError, match="coincide"):
        ops.matmul(ops.row_major(c, 2), left, right, **good, sequences=2)
    with pytest.raises(ValueError, match="negative"):
        ops.matmul(ops.row_major(c, 2), ops.Operand(a, -2, 1), right, **good)
    with pytest.raises(ValueError, match="register_blocked"):
        ops.matmul(ops.row_major(c, 2), left, right, **good, version="fast")  # type: ignore[arg-type]
    with pytest.raises(kdsl.LaunchError, match="overlap"):
        ops.matmul(ops.row_major(c, 2), ops.row_major(c, 2), right, **good)
    assert (c.numpy() == POISON).all()


def test_values_outside_their_range(device: kdsl.Device) -> None:
    x = device.array(np.full(4, POISON, np.float32))
    base = {"learning_rate": 0.1, "beta1": 0.9, "beta2": 0.9, "epsilon": 1e-8, "weight_decay": 0.0, "step": 1}
    for wrong in ({"beta1": 1.0}, {"beta2": -0.1}, {"step": 0}, {"epsilon": 0.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ops.adamw(x, x, x, x, ops.AdamW(**(base | wrong)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="floor"):
        ops.log_compress(x, x, floor=0.0)
    with pytest.raises(ValueError, match="momentum"):
        ops.phase_step(x, x, x, x, frames=1, bins=1, momentum=-1.0)
    with pytest.raises(ValueError, match="even"):
        ops.rotary(x, x, x, rows=1, length=1, width=4, heads=1, head_width=3)
    with pytest.raises(ValueError, match="queries"):
        ops.causal_softmax(x, x, sequences=1, heads=1, length=1, queries=2, scale=1.0)
    with pytest.raises(ValueError, match="probabilities"):
        ops.causal_softmax_backward(x, x, x, sequences=1, heads=1, length=2, scale=1.0)
    with pytest.raises(ValueError, match="tokens must be from 0 to 2"):
        ops.token_index(np.array([0, 3]), 3, device)
    assert (x.numpy() == POISON).all()
