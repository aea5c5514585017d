"""What atomic operations do, on every device, against models in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from written import BLOCKS, numbers, poison, written

import kdsl
from kdsl.backend.cpu import HostCpu, compile_assembly
from kdsl.ir import nodes
from kdsl.lang.intrinsics import INTRINSICS, ToAtomic
from kdsl.lang.types import DTYPES, wrap
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
INTEGERS = ("i32", "u32", "i64", "u64")
_FOLDS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "min": min, "max": max, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
          "xor": lambda a, b: a ^ b}  # fmt: skip


def run(device: Any, kernel: Any, *arrays: Any) -> list[Any]:
    """Launch with copies of the arrays; what they hold afterwards."""
    held = [device.array(a) for a in arrays]
    kernel(*held)
    return [a.numpy() for a in held]


@DEVICES
@pytest.mark.parametrize("operation", _FOLDS)
def test_every_thread_takes_part_once(device: Any, operation: str) -> None:
    """Seven blocks of threads work on a few elements of device memory, and on a shared array first."""
    for number, name in enumerate(INTEGERS):
        of, block = DTYPES[name], BLOCKS[number]
        kernel = written(
            f"x: Slice[{name}], y: SliceMut[{name}], z: SliceMut[{name}]",
            f"s = shared_array(3, {name})\ni = thread_index()\nif thread_idx.x < 3:\n    s[thread_idx.x] = z[thread_idx.x]\nsync_threads()\n"
            f'if i in x:\n    atomic_{operation}(y, i % 3, x[i])\n    atomic_{operation}(s, i % 3, x[i], scope="block")\n'
            "sync_threads()\nif thread_idx.x < 3:\n    z[3 + 3 * block_idx.x + thread_idx.x] = s[thread_idx.x]",
            block,
            'elements("x")',
        )
        x, start = numbers(7 * block - 5, of, number), numbers(3, of, 99)
        z = np.concatenate([start, poison(21, of)])
        _, y, z = run(device, kernel, x, start, z)
        for element in range(3):
            model = int(start[element])
            for value in x[element::3]:
                model = _FOLDS[operation](model, int(value))
            assert int(y[element]) == wrap(of, model)
        for number, part in enumerate(np.split(x, range(block, 7 * block, block))):
            for element in range(3):
                model = int(start[element])
                for position, value in enumerate(part):
                    if (number * block + position) % 3 == element:
                        model = _FOLDS[operation](model, int(value))
                assert int(z[3 + 3 * number + element]) == wrap(of, model)


@DEVICES
@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_floats_are_added(device: Any, name: str) -> None:
    """Integral values, small enough for every partial sum to be exact, so that the order does not show."""
    of = DTYPES[name]
    kernel = written(
        f"x: Slice[{name}], y: SliceMut[{name}]",
        "i = thread_index()\nif i in x:\n    atomic_add(y, 0, x[i])\n    atomic_sub(y, 1, x[i], order='acq_rel')",
        96,
        'elements("x")',
    )
    x = np.random.default_rng(1).integers(-1, 2, 1000).astype(of.numpy)
    _, y = run(device, kernel, x, np.array([3, 4], of.numpy))
    total = x.astype(np.float64).sum()
    assert y.astype(np.float64).tolist() == [3 + total, 4 - total]


@DEVICES
@pytest.mark.parametrize("block", BLOCKS)
def test_old_values_number_the_threads(device: Any, block: int) -> None:
    """A counter hands every thread a number of its own; in device memory over all blocks, in a shared array within each."""
    kernel = written(
        "counter: SliceMut[u32], here: SliceMut[u32], there: SliceMut[u32]",
        "s = shared_array(1, u32)\nif is_first_thread():\n    s[0] = 0\nsync_threads()\ni = thread_index()\n"
        "if i in here:\n    here[i] = atomic_add(counter, 0, 1)\n    there[i] = atomic_inc(s, 0, u32(100000))",
        block,
        'elements("here")',
    )
    count = 5 * block - 3
    empty = poison(count, kdsl.dtype("u32"))
    counter, here, there = run(device, kernel, np.zeros(1, np.uint32), empty, empty)
    assert counter[0] == count
    assert sorted(here) == list(range(count))
    for first in range(0, count, block):
        part = there[first : first + block]
        assert sorted(part) == list(range(len(part)))


@DEVICES
def test_increments_and_decrements_wrap_at_the_limit(device: Any) -> None:
    kernel = written(
        "y: SliceMut[u32], old: SliceMut[u32]",
        "s = shared_array(2, u32)\ns[0] = y[0]\ns[1] = y[1]\n"
        "for k in range(12):\n    old[k] = atomic_inc(y, 0, 4)\n    old[12 + k] = atomic_dec(y, 1, 4)\n"
        "    old[24 + k] = atomic_inc(s, 0, 4)\n    old[36 + k] = atomic_dec(s, 1, 4)",
        1,
    )
    for start in (0, 3, 9):
        y, old = run(device, kernel, np.array([start, start], np.uint32), poison(48, kdsl.dtype("u32")))
        up, down = [start], [start]
        for _ in range(12):
            up.append(0 if up[-1] >= 4 else up[-1] + 1)
            down.append(4 if down[-1] == 0 or down[-1] > 4 else down[-1] - 1)
        assert list(y) == [up[-1], down[-1]]
        assert list(old) == [*up[:-1], *down[:-1]] * 2


@DEVICES
@pytest.mark.parametrize("name", ["i32", "u32", "i64", "u64", "f32", "f64"])
def test_exchange_compare_load_and_store(device: Any, name: str) -> None:
    of = DTYPES[name]
    kernel = written(
        f"x: Slice[{name}], y: SliceMut[{name}], old: SliceMut[{name}]",
        f"s = shared_array(4, {name})\nfor k in range(4):\n    s[k] = y[k]\n"
        "for k in range(2):\n    base = 8 * k\n"
        "    if k == 0:\n"
        "        old[0] = atomic_exchange(y, 0, x[0])\n        old[1] = atomic_cas(y, 1, x[1], x[2])\n        old[2] = atomic_cas(y, 2, x[2], x[0])\n"
        "        old[3] = atomic_load(y, 3)\n        atomic_store(y, 3, x[0])\n"
        "    else:\n"
        "        old[4] = atomic_exchange(s, 0, x[0])\n        old[5] = atomic_cas(s, 1, x[1], x[2])\n        old[6] = atomic_cas(s, 2, x[2], x[0])\n"
        "        old[7] = atomic_load(s, 3)\n        atomic_store(s, 3, x[0])\n"
        "for k in range(4):\n    y[4 + k] = s[k]",
        1,
    )
    x = np.array([7, 5, 3], of.numpy)
    y = np.concatenate([np.array([1, 5, 4, 9], of.numpy), poison(4, of)])
    _, y, old = run(device, kernel, x, y, poison(8, of))
    assert list(y) == [7, 3, 4, 7] * 2
    assert list(old) == [1, 5, 4, 9] * 2


@DEVICES
@pytest.mark.parametrize("name", ["i8", "u8", "i16", "u16", "f16", "bf16"])
def test_narrow_numbers_are_loaded_and_stored(device: Any, name: str) -> None:
    """Neighbours stay as they are: every second one is stored, by one thread each."""
    of = DTYPES[name]
    kernel = written(
        f"x: Slice[{name}], y: SliceMut[{name}], z: SliceMut[{name}]",
        f"s = shared_array(96, {name})\ni = thread_idx.x\ns[i] = y[i]\nsync_threads()\n"
        "if i % 2 == 0:\n    atomic_store(y, i, atomic_load(z, i, order='acquire'), order='release')\n    atomic_store(s, i, x[i], scope='block')\n"
        "sync_threads()\nz[i] = atomic_load(s, i)",
        96,
    )
    x, before, held = (numbers(96, of, seed) for seed in (1, 2, 3))
    _, y, z = run(device, kernel, x, before, held)
    even = np.arange(96) % 2 == 0
    assert y.tobytes() == np.where(even, held, before).tobytes()
    assert z.tobytes() == np.where(even, x, before).tobytes()


@pytest.mark.parametrize("device", [d for d in devices() if getattr(d, "capability", (9, 0)) >= (9, 0)], ids=str)
def test_scope_of_a_cluster(device: Any) -> None:
    """A counter of the blocks of each cluster, in device memory."""
    kernel = written(
        "y: SliceMut[i32]",
        "if is_first_thread():\n    fence_cluster()\n    atomic_add(y, block_index() // 2, 3, scope='cluster', order='acq_rel')\n"
        "    fence_cluster(order='acq_rel')",
        64,
        "8",
    )
    (y,) = run(device, kernel, np.arange(4, dtype=np.int32))
    assert list(y) == [6, 7, 8, 9]


@DEVICES
def test_a_compare_is_of_bits(device: Any) -> None:
    """-0.0 is not 0.0, and a NaN is itself."""
    kernel = written("y: SliceMut[f32]", 'atomic_cas(y, 0, 0.0, 5.0)\natomic_cas(y, 1, f32("nan"), 6.0)\natomic_cas(y, 2, -0.0, 7.0)', 1)
    (y,) = run(device, kernel, np.array([-0.0, np.nan, -0.0], np.float32))
    assert list(y) == [0.0, 6.0, 7.0]
    assert np.signbit(y[0])


@DEVICES
@pytest.mark.parametrize("block", BLOCKS)
def test_a_loop_of_compare_and_swap(device: Any, block: int) -> None:
    """The largest of floats, which no instruction finds: every thread tries until nobody came between."""
    kernel = written(
        "x: Slice[f32], y: SliceMut[f32]",
        "i = thread_index()\nif i in x:\n    seen = atomic_load(y, 0)\n    while x[i] > seen:\n        found = atomic_cas(y, 0, seen, x[i])\n"
        "        if float_bits(found) == float_bits(seen):\n            break\n        seen = found",
        block,
        'elements("x")',
    )
    x = numbers(9 * block - 4, kdsl.dtype("f32"), block)
    _, y = run(device, kernel, x, np.array([-100], np.float32))
    assert y[0] == x.max()


@DEVICES
def test_active_lanes_only(device: Any) -> None:
    """Under a condition that differs from lane to lane, in a loop whose length does."""
    kernel = written(
        "n: Slice[i32], y: SliceMut[i64], z: SliceMut[i64]",
        "i = thread_index()\ntotal = i64(0)\nif i in n and n[i] % 2 == 1:\n    for k in range(n[i]):\n        total += atomic_add(y, k, 1) * 0 + 1\n"
        "if i in z:\n    z[i] = total",
        48,
        'elements("n")',
    )
    n = np.random.default_rng(3).integers(0, 9, 200).astype(np.int32)
    _, y, z = run(device, kernel, n, np.zeros(9, np.int64), poison(200, kdsl.dtype("i64")))
    odd = n[n % 2 == 1]
    assert list(y) == [(odd > k).sum() for k in range(9)]
    assert list(z) == list(np.where(n % 2 == 1, n, 0))


@DEVICES
def test_an_array_of_two_dimensions(device: Any) -> None:
    kernel = written(
        "y: SliceMut[i32]",
        "s = shared_array((3, 5), i32)\nt = thread_idx.x\nif t < 15:\n    s[t // 5, t % 5] = 0\nsync_threads()\n"
        "atomic_max(s, (t % 3, t % 5), i32(t))\nsync_threads()\nif t < 15:\n    y[t] = s[t // 5, t % 5]",
        33,
    )
    (y,) = run(device, kernel, poison(15, kdsl.dtype("i32")))
    model = [max(t for t in range(33) if t % 3 == e // 5 and t % 5 == e % 5) for e in range(15)]
    assert list(y) == model


@DEVICES
@pytest.mark.parametrize("name", [name for name, row in INTRINSICS.items() if isinstance(row.lowering, ToAtomic)])
def test_outside_nothing_happens_and_it_is_recorded(device: Any, name: str) -> None:
    row = INTRINSICS[name].lowering
    assert isinstance(row, ToAtomic)
    values = {"load": "", "cas": ", u32(0), u32(1)"}.get(row.op, ", u32(1)")
    call = f"{name}(y, n{values})"
    for index in (4, -1):
        kernel = written("y: SliceMut[u32], old: SliceMut[u32], n: i64", call if row.op == "store" else f"old[thread_index()] = {call}", 33)
        y, old = device.array(np.full(4, 7, np.uint32)), device.array(poison(33, kdsl.dtype("u32")))
        kernel(y, old, index)
        with pytest.raises(
            kdsl.BoundsError, match=rf"atomic operation outside array y: index {index} is out of bounds for 4 elements"
        ) as caught:
            y.numpy()
        assert (caught.value.array, caught.value.index, caught.value.extent) == ("y", index, 4)
        assert list(y.numpy()) == [7] * 4
        assert row.op == "store" or not old.numpy().any()


@DEVICES
def test_some_lanes_outside(device: Any) -> None:
    kernel = written("y: SliceMut[i32]", "s = shared_array(6, i32)\nt = thread_idx.x\nif t < 6:\n    s[t] = 0\nsync_threads()\n"
                     "atomic_add(s, t, 1)\natomic_add(y, 2 * t, 1)\nsync_threads()\nif t < 6:\n    atomic_add(y, t, s[t])", 17)  # fmt: skip
    y = device.array(np.zeros(6, np.int32))
    kernel(y)
    with pytest.raises(kdsl.BoundsError, match=r"atomic operation outside array [sy]"):
        device.synchronize()
    assert list(y.numpy()) == [2, 1, 2, 1, 2, 1]


@DEVICES
def test_the_last_block_sees_what_all_have_written(device: Any) -> None:
    """The pattern that fences are for: each block leaves a partial sum, the block that comes last adds them up."""
    kernel = written(
        "x: Slice[i64], partial: SliceMut[i64], done: SliceMut[u32], y: SliceMut[i64], blocks: u32",
        "i = thread_index()\nsum = block_sum(x[i])\nlast = shared_array(1, u32)\nif is_first_thread():\n    partial[block_index()] = sum\n    fence_device()\n"
        '    last[0] = atomic_inc(done, 0, blocks - u32(1), order="acq_rel")\nsync_threads()\n'
        "if last[0] == blocks - u32(1):\n    total = i64(0)\n    for b in range(blocks):\n        total += atomic_load(partial, b)\n"
        "    if is_first_thread():\n        y[0] = total",
        96,
        'elements("x")',
    )
    x = np.arange(96 * 40, dtype=np.int64)
    done, y = device.array(np.zeros(1, np.uint32)), device.array(poison(1, kdsl.dtype("i64")))
    for _ in range(2):
        kernel(device.array(x), device.array(poison(40, kdsl.dtype("i64"))), done, y, 40)
        assert y.numpy()[0] == x.sum()
        assert done.numpy()[0] == 0


@DEVICES
def test_old_values_outlive_a_barrier(device: Any) -> None:
    kernel = written(
        "y: SliceMut[i32], z: SliceMut[i32]",
        "i = thread_index()\nold = atomic_add(y, i % 2, i32(i) * 0 + 2)\nsync_threads()\nz[i] = old\nsync_threads()\nz[i] += atomic_load(y, i % 2)",
        48,
    )
    y, z = run(device, kernel, np.zeros(2, np.int32), poison(48, kdsl.dtype("i32")))
    assert list(y) == [48, 48]
    assert sorted(z) == sorted([*range(48, 96, 2)] * 2)


@DEVICES
def test_a_thread_sees_its_own_operations_in_order(device: Any) -> None:
    """A plain read after an atomic change, and control around a barrier that depends on it."""
    kernel = written(
        "y: SliceMut[i32]",
        "atomic_add(y, 0, 5)\nn = y[0]\natomic_store(y, 0, n + 1)\nif y[0] > 7:\n    sync_threads()\n    y[1] = atomic_exchange(y, 0, 1) + y[0]",
        1,
    )
    (y,) = run(device, kernel, np.array([4, -1], np.int32))
    assert list(y) == [1, 11]


@DEVICES
def test_unchecked_and_through_functions(device: Any) -> None:
    kernel = written(
        "y: SliceMut[i32], z: SliceMut[f32]",
        "i = thread_index()\natomic_add(y.unchecked, i % 4, 1)\natomic_add(index=0, array=z, value=1, order='relaxed')",
        33,
    )
    y, z = run(device, kernel, np.zeros(4, np.int32), np.zeros(1, np.float32))
    assert list(y) == [9, 8, 8, 8]
    assert z[0] == 33
    assert [op.checked for op in kernel.ir().body if isinstance(op, nodes.Atomic)] == [False, True]


@pytest.mark.parametrize("generation", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_no_processor_needs_a_library(generation: str) -> None:
    """Every operation is made of instructions, and of nothing that a linker would have to find."""
    for name, row in INTRINSICS.items():
        if not isinstance(row.lowering, ToAtomic):
            continue
        for of in (*row.lowering.types, *row.lowering.vectors):
            values = {"load": "", "cas": ", x[0], x[1]"}.get(row.lowering.op, ", x[0]")
            body = f"{name}(y, thread_index(){values}, order='seq_cst')\nfence_system()"
            kernel = written(f"x: Slice[{of}], y: SliceMut[{of}]", body)
            text = compile_assembly(kernel.ir(), HostCpu(generation))
            assert "__atomic" not in text
            assert "__aarch64" not in text


@DEVICES
@pytest.mark.parametrize("name", ["i16", "u16", "f16", "bf16"])
def test_16_bits_are_compared_loaded_and_stored(device: Any, name: str) -> None:
    of = DTYPES[name]
    kernel = written(
        f"x: Slice[{name}], y: SliceMut[{name}], old: SliceMut[{name}]",
        f"s = shared_array(4, {name})\nfor k in range(4):\n    s[k] = y[k]\n"
        "old[0] = atomic_cas(y, 0, x[1], x[2])\nold[1] = atomic_cas(y, 1, x[1], x[2])\nold[2] = atomic_load(y, 2)\natomic_store(y, 3, x[0])\n"
        "old[3] = atomic_cas(s, 0, x[1], x[2])\nold[4] = atomic_cas(s, 1, x[1], x[2])\nold[5] = atomic_load(s, 2)\natomic_store(s, 3, x[0])\n"
        "for k in range(4):\n    y[4 + k] = s[k]",
        1,
    )
    x = np.array([7, 5, 3], of.numpy)
    y = np.concatenate([np.array([1, 5, 4, 9], of.numpy), poison(4, of)])
    _, y, old = run(device, kernel, x, y, poison(6, of))
    assert y.astype(int).tolist() == [1, 3, 4, 7] * 2
    assert old.astype(int).tolist() == [1, 5, 4] * 2


@DEVICES
@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_sums_of_16_bit_floats_round_once_each(device: Any, name: str) -> None:
    """One thread, so the order is known: each sum is that of the language, subnormals kept."""
    of = DTYPES[name]
    kernel = written(
        f"x: Slice[{name}], y: SliceMut[{name}], z: SliceMut[{name}]", "for k in range(len(x)):\n    z[k] = atomic_add(y, 0, x[k])", 1
    )
    x = np.concatenate([numbers(200, of, 5), np.array([1e-7, 3e-8, -1e-7], of.numpy)]).astype(of.numpy)
    _, y, old = run(device, kernel, x, np.zeros(1, of.numpy), poison(len(x), of))
    total = of.numpy.type(0)
    for value, before in zip(x, old, strict=True):
        assert before.tobytes() == total.tobytes()
        total = of.numpy.type(np.float32(total) + np.float32(value))
    assert y[0].tobytes() == total.tobytes()
