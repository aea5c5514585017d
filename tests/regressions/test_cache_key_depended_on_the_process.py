"""Elsewhere keys held a salted hash or an order of definition, so that every process compiled anew; a shortened hash served one kernel for another; and a
change of the compiler went unnoticed.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from from_text import kernel_of

import kdsl
from kdsl import compiler
from kdsl.runtime import cache

PROGRAM = """
import json, random, sys
import kdsl
from kdsl import *
import linecache

space = dict(vars(kdsl))
texts = {}
for n in range(20):
    name = f"k{n}"
    body = f"    i = thread_index()\\n    if i in y:\\n        a, b = x[i], {n}.0\\n        for k in range({n % 3} + m):\\n"
    body += "            if a > b:\\n                a = a * 0.5 + b\\n            else:\\n                b -= 1.0\\n"
    body += "        y[i] = exp(a) + b\\n        s = local_array(4, f32)\\n        s[i % 4] = a\\n        y[i] += s[m % 4]\\n"
    texts[name] = f"@kernel(grid=elements('y'), requires=('len(x) >= len(y)',))\\ndef {name}(y: DisjointSlice[f32], x: Slice[f32], m: i32) -> None:\\n{body}"
order = list(texts)
random.Random(int(sys.argv[1])).shuffle(order)
for name in order:
    file = f"/somewhere/{name}.py"
    linecache.cache[file] = (len(texts[name]), None, texts[name].splitlines(True), file)
    exec(compile(texts[name], file, "exec"), space)
found = {}
for name in sorted(texts):
    kernel = space[name]
    found[name] = [kernel.ptx("sm_90"), kernel.compile("cpu").code.hex()]
json.dump(found, sys.stdout)
"""


def test_every_process_makes_the_same_of_the_same(tmp_path: Path) -> None:
    """Twenty kernels, in three orders, with three seeds of Python's hash: the same keys, the same PTX and object code, byte for byte."""
    texts, keys = set(), set()
    for number, seed in enumerate(("0", "1", "random")):
        folder = tmp_path / str(number)
        environment = {**os.environ, "PYTHONHASHSEED": seed, "KDSL_CACHE_DIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(number)], env=environment, capture_output=True, text=True, check=True, timeout=300
        )
        texts.add(ended.stdout)
        keys.add(tuple(sorted(path.name for path in folder.glob("*.kdsl"))))
    (text,), (names,) = texts, keys
    assert len(names) == 40
    assert len({ptx for ptx, _ in json.loads(text).values()}) == 20


def test_keys_that_begin_alike_do_not_meet(tmp_path: Path) -> None:
    assert len(cache.content_key("ptx", "a")) == 64
    held = cache.Cache(tmp_path)
    held.put("ab" * 31 + "00", b"one")
    held.put("ab" * 31 + "01", b"two")
    assert (held.get("ab" * 31 + "00"), held.get("ab" * 31 + "01")) == (b"one", b"two")


def test_the_key_covers_every_file_that_makes_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the backends import, directly or not, is read for the key; `kdsl/lang/types.py` and `kdsl/ir/nodes.py` were left out."""
    root = Path(kdsl.__file__).parent
    read: set[Path] = set()
    real = Path.read_bytes

    def noting(path: Path) -> bytes:
        read.add(path)
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", noting)
    compiler._version_of_compiler.__wrapped__()
    waiting, reached = list((root / "backend").rglob("*.py")), set()
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached.add(path)
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [node.module, *(f"{node.module}.{a.name}" for a in node.names)] if isinstance(node, ast.ImportFrom) and node.module else []
            )
            names += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                if name.startswith("kdsl."):
                    place = root.parent.joinpath(*name.split("."))
                    waiting += [file for file in (place.with_suffix(".py"), place / "__init__.py") if file.exists()]
    assert reached <= read


def test_options_are_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Target, checked build, block, contraction: each makes an entry of its own, and comes back as itself."""
    monkeypatch.setenv("KDSL_CACHE_DIR", str(tmp_path))
    texts = {}
    before = compiler._checks
    try:
        for checked in (False, True):
            kdsl.checked(checked)
            for options in ("grid=1, block=32", "grid=1, block=64", "grid=1, block=32, contract=False"):
                kernel = kernel_of("y: SliceMut[f32]", "y.unchecked[0] = y.unchecked[1] * y.unchecked[2] + 1.0", options)
                for target in ("sm_80", "sm_90", "sm_90a"):
                    texts[checked, options, target] = kernel.ptx(target)
    finally:
        compiler._checks = before
    assert len(list(tmp_path.glob("*.kdsl"))) == 18
    assert len(set(texts.values())) == 18
    assert {ptx.count("kdsl_record_failure") > 0 for (checked, *_), ptx in texts.items() if not checked} == {False}


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a container under a number without a name `~` stays `~`: the cache was a folder of that name where the program happened to run."""
    for name in ("KDSL_CACHE", "KDSL_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.chdir(tmp_path)
    held = cache.default_cache()
    held.put("0" * 64, b"content")
    assert held.get("0" * 64) is None
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("KDSL_CACHE_DIR", str(tmp_path / "chosen"))
    assert cache.default_cache().folder == tmp_path / "chosen"
