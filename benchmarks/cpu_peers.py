"""What `benchmarks/cpu.py` compares with: the same work in NumPy, PyTorch and Numba, in a process of its own.

The process reads the name of a case per line and answers with a line of JSON: the time in seconds by library. It needs no kdsl, so that it can run in an
environment where PyTorch and Numba are; what is not installed is left out. Sizes stand in `cpu_cases.py`.
"""

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

import cpu_cases as cases
import numpy as np

F32 = np.float32
Run = Callable[[], Any]


def library(name: str) -> Any:
    """A module, None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


torch: Any = library("torch")
numba: Any = library("numba")


def numbers(*shape: int, seed: int = 0) -> Any:
    """Normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=F32)


# ------------------------------------------------------------------------------------------------------------------------- products


def product(case: cases.Product) -> dict[str, Run]:
    def operand(rows: int, columns: int, transposed: bool, seed: int) -> Any:
        batch = (case.batch,) if case.batch > 1 else ()
        x = numbers(*batch, columns, rows, seed=seed) if transposed else numbers(*batch, rows, columns, seed=seed)
        return x.swapaxes(-1, -2) if transposed else x

    a = operand(case.m, case.k, case.a_transposed, 1)
    b = operand(case.k, case.n, case.b_transposed, 2)
    out = np.empty((*a.shape[:-1], case.n), F32)
    return {"NumPy": lambda: np.matmul(a, b, out=out)}


# -------------------------------------------------------------------------------------------------------------------------- elements


def elements(name: str) -> dict[str, Run]:
    n, rows, columns = cases.ELEMENTS, cases.ROWS, cases.COLUMNS
    found: dict[str, Run] = {}
    x, y, z = numbers(n), numbers(n, seed=1), np.empty(n, F32)
    m, dy = x.reshape(rows, columns), y.reshape(rows, columns)
    weight = numbers(columns, seed=2)
    targets = np.random.default_rng(3).integers(0, columns, rows)
    tokens = np.random.default_rng(4).integers(0, cases.VOCABULARY, n // cases.WIDTH)

    def softmax(m: Any) -> Any:
        e = np.exp(m - m.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def gelu() -> None:
        np.multiply(x, F32(0.5) * (1 + np.tanh(F32(0.7978845608) * (x + F32(0.044715) * x * x * x))), out=z)

    def adamw() -> None:
        mean = z
        mean *= F32(0.9)
        mean += F32(0.1) * y
        second = F32(0.95) * np.abs(y) + F32(0.05) * y * y
        np.subtract(x, F32(1e-9) * (mean / (np.sqrt(second) + F32(1e-8)) + F32(0.1) * x), out=x)

    def rms_norm() -> Any:
        return weight * m / np.sqrt((m * m).mean(axis=1, keepdims=True) + F32(1e-5))

    def rms_norm_backward() -> Any:
        inverse = 1 / np.sqrt((m * m).mean(axis=1, keepdims=True) + F32(1e-5))
        g = dy * weight
        d_weight = (dy * m * inverse).sum(axis=0)
        return inverse * (g - m * (inverse * inverse * (g * m).mean(axis=1, keepdims=True))), d_weight

    def cross_entropy() -> Any:
        largest = m.max(axis=1)
        return np.log(np.exp(m - largest[:, None]).sum(axis=1)) + largest - m[np.arange(rows), targets]

    def cross_entropy_backward() -> Any:
        p = softmax(m)
        p[np.arange(rows), targets] -= 1
        return p

    table = np.zeros((cases.VOCABULARY, cases.WIDTH), F32)

    def saxpy() -> None:
        np.add(F32(0.5) * x, y, out=y)

    found["NumPy"] = {
        "saxpy": saxpy,
        "gelu": gelu,
        "adamw": adamw,
        "softmax": lambda: softmax(m),
        "rms_norm": rms_norm,
        "rms_norm_backward": rms_norm_backward,
        "cross_entropy": cross_entropy,
        "cross_entropy_backward": cross_entropy_backward,
        "embedding_gradient": lambda: np.add.at(table, tokens, x.reshape(-1, cases.WIDTH)),
    }[name]
    if torch is not None:
        found["PyTorch"] = torch_elements(name, x, y, weight, targets, tokens)
    return found


def torch_elements(name: str, x: Any, y: Any, weight: Any, targets: Any, tokens: Any) -> Run:
    functional = torch.nn.functional
    rows, columns = cases.ROWS, cases.COLUMNS
    tx, ty, tw = (torch.from_numpy(v) for v in (x, y, weight))
    m, dy = tx.view(rows, columns), ty.view(rows, columns)
    labels, ids = torch.from_numpy(targets), torch.from_numpy(tokens)
    if name in ("rms_norm_backward", "cross_entropy_backward"):
        source, scale = m.clone().requires_grad_(), tw.clone().requires_grad_()
        if name == "rms_norm_backward":
            result = functional.rms_norm(source, (columns,), scale, 1e-5)
            return lambda: torch.autograd.grad(result, (source, scale), dy, retain_graph=True)
        loss = functional.cross_entropy(source, labels)
        return lambda: torch.autograd.grad(loss, source, retain_graph=True)
    if name == "adamw":
        parameter = torch.nn.Parameter(tx.clone())
        parameter.grad = ty
        return torch.optim.AdamW([parameter], lr=1e-9, betas=(0.9, 0.95), weight_decay=0.1, fused=True).step
    out = torch.empty_like(tx)
    d_table = torch.zeros(cases.VOCABULARY, cases.WIDTH)
    functions: dict[str, Run] = {
        "saxpy": lambda: ty.add_(tx, alpha=0.5),
        "gelu": lambda: functional.gelu(tx, approximate="tanh"),
        "softmax": lambda: torch.softmax(m, 1, out=out.view(rows, columns)),
        "rms_norm": lambda: functional.rms_norm(m, (columns,), tw, 1e-5),
        "cross_entropy": lambda: functional.cross_entropy(m, labels, reduction="none"),
        "embedding_gradient": lambda: d_table.index_add_(0, ids, tx.view(-1, cases.WIDTH)),
    }
    return functions[name]


# -------------------------------------------------------------------------------------------------------------------------- examples


def examples(name: str) -> dict[str, Run]:
    """The loops of the example programs, as one would write them for Numba."""
    if numba is None:
        return {}
    njit, prange = numba.njit, numba.prange
    parallel = njit(parallel=True)
    n, rows, columns, size = cases.ELEMENTS, cases.ROWS, cases.COLUMNS, cases.MATRIX
    x, y = numbers(n), numbers(n, seed=1)

    @parallel
    def saxpy(y, x, a):  # type: ignore[no-untyped-def]
        for i in prange(len(y)):
            y[i] = a * x[i] + y[i]

    @parallel
    def power(y, x):  # type: ignore[no-untyped-def]
        for i in prange(len(y)):
            y[i] = x[i] * x[i] * x[i]

    @parallel
    def window(y, x, start):  # type: ignore[no-untyped-def]
        for i in prange(len(y)):
            y[i] = x[start + i]

    @parallel
    def scatter(y, index):  # type: ignore[no-untyped-def]
        for i in prange(len(index)):
            y[index[i]] = F32(1)

    @parallel
    def adamw(w, m, v, g, rate, beta1, beta2, epsilon, decay, c1, c2):  # type: ignore[no-untyped-def]
        for i in prange(len(w)):
            m[i] = g[i] + beta1 * (m[i] - g[i])
            v[i] = g[i] * g[i] + beta2 * (v[i] - g[i] * g[i])
            update = (m[i] / c1) / (np.sqrt(v[i] / c2) + epsilon)
            w[i] = w[i] - rate * (update + decay * w[i])

    @parallel
    def softmax(y, x):  # type: ignore[no-untyped-def]
        for r in prange(x.shape[0]):
            largest = F32(-np.inf)
            for c in range(x.shape[1]):
                largest = max(largest, x[r, c])
            total = F32(0)
            for c in range(x.shape[1]):
                total += np.exp(x[r, c] - largest)
            for c in range(x.shape[1]):
                y[r, c] = np.exp(x[r, c] - largest) / total

    @parallel
    def sum_of_squares(x):  # type: ignore[no-untyped-def]
        total = F32(0)
        for i in prange(len(x)):
            total += x[i] * x[i]
        return total

    @parallel
    def embedding_gradient(table, gradient, first, position):  # type: ignore[no-untyped-def]
        for token in prange(table.shape[0]):
            for c in range(table.shape[1]):
                table[token, c] = F32(0)
            for occurrence in range(first[token], first[token + 1]):
                for c in range(table.shape[1]):
                    table[token, c] += gradient[position[occurrence], c]

    @parallel
    def matmul(c, a, b):  # type: ignore[no-untyped-def]
        for i in prange(c.shape[0]):
            for j in range(c.shape[1]):
                c[i, j] = F32(0)
            for k in range(a.shape[1]):
                for j in range(c.shape[1]):
                    c[i, j] += a[i, k] * b[k, j]

    tokens = np.random.default_rng(4).integers(0, cases.VOCABULARY, n // cases.WIDTH)
    first = np.concatenate([[0], np.cumsum(np.bincount(tokens, minlength=cases.VOCABULARY))]).astype(np.int32)
    position = np.argsort(tokens, kind="stable").astype(np.int32)
    table = np.zeros((cases.VOCABULARY, cases.WIDTH), F32)
    index = np.random.default_rng(5).permutation(n).astype(np.int32)
    a, b, c = numbers(size, size), numbers(size, size, seed=1), np.empty((size, size), F32)
    mean, square = np.zeros(n, F32), np.zeros(n, F32)
    numbers_of_step = tuple(F32(v) for v in (1e-9, 0.9, 0.95, 1e-8, 0.1, 0.1, 0.05))
    runs: dict[str, Run] = {
        "saxpy": lambda: saxpy(y, x, F32(0.5)),
        "generic_scale": lambda: power(y, x),
        "mistakes: window": lambda: window(y[:-64], x, 64),
        "mistakes: scatter": lambda: scatter(y, index),
        "adamw": lambda: adamw(x, mean, square, y, *numbers_of_step),
        "softmax": lambda: softmax(y.reshape(rows, columns), x.reshape(rows, columns)),
        "sum_of_squares": lambda: sum_of_squares(x),
        "embedding_gradient": lambda: embedding_gradient(table, x.reshape(-1, cases.WIDTH), first, position),
        "matmul_tiled": lambda: matmul(c, a, b),
    }
    return {"Numba": runs[name]}


# -------------------------------------------------------------------------------------------------------------------------- training


def training(name: str) -> dict[str, Run]:
    """A whole step of the same model."""
    if torch is None:
        return {}
    c = cases.MODELS[name]
    functional, nn = torch.nn.functional, torch.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.RMSNorm(c.width, 1e-5), nn.RMSNorm(c.width, 1e-5)
            self.qkv, self.out = nn.Linear(c.width, 3 * c.width, bias=False), nn.Linear(c.width, c.width, bias=False)
            self.up, self.down = nn.Linear(c.width, 4 * c.width, bias=False), nn.Linear(4 * c.width, c.width, bias=False)

        def forward(self, x: Any) -> Any:
            sequences, length, width = x.shape
            q, k, v = (t.view(sequences, length, c.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(width, dim=2))
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(sequences, length, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.table, self.positions = nn.Embedding(c.vocabulary, c.width), nn.Embedding(c.length, c.width)
            self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(c.layers))), nn.RMSNorm(c.width, 1e-5)

        def forward(self, tokens: Any) -> Any:
            x = self.table(tokens) + self.positions.weight
            return self.norm(self.blocks(x)) @ self.table.weight.T

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    windows = torch.from_numpy(np.random.default_rng(0).integers(0, c.vocabulary, (c.sequences, c.length + 1)))

    def step() -> float:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return float(loss)

    return {"PyTorch": step}


def find(name: str) -> dict[str, Run]:
    """The runs of a case, by library."""
    part, _, own = name.partition("/")
    if part == "matmul":
        return product(cases.PRODUCTS[own.partition(":")[0]])
    return {"elements": elements, "examples": examples, "training": training}[part](own)


def main() -> None:
    threads = int(sys.argv[1])
    if torch is not None:
        torch.set_num_threads(threads)
    name, runs = "", {}
    print(json.dumps({v.__name__: v.__version__ for v in (np, torch, numba) if v is not None}), flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        if wanted["case"] != name:
            name, runs = wanted["case"], find(wanted["case"])
        print(json.dumps({key: cases.seconds(run, threads, wanted["budget"]) for key, run in runs.items()}), flush=True)


if __name__ == "__main__":
    main()
