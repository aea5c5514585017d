"""Line information: `.file` and `.loc` for every instruction, so that profilers and compute-sanitizer name lines of the Python source.

Only directives are written, no sections that describe variables and types. An instruction of an expanded `@function` has its own line there, with the call
noted for LLVM (which writes it once it can).
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from llvmlite import ir

from kdsl.backend.nvptx.symbols import ascii_path
from kdsl.ir import nodes


class Lines:
    """The debug metadata of one module."""

    def __init__(self, module: ir.Module, file: str) -> None:
        self.module = module
        self._unit = module.add_debug_info(
            "DICompileUnit",
            {
                "language": ir.DIToken("DW_LANG_Python"),
                "file": self.file(file),
                "producer": "kdsl",
                "isOptimized": True,
                "runtimeVersion": 0,
                "emissionKind": ir.DIToken("DebugDirectivesOnly"),
            },
            is_distinct=True,
        )
        module.add_named_metadata("llvm.dbg.cu", self._unit)
        one = ir.IntType(32)
        module.add_named_metadata("llvm.module.flags", [one(2), "Debug Info Version", one(3)])

    def of(self, kernel: nodes.Kernel, function: ir.Function) -> KernelLines:
        """The places of one kernel, whose LLVM function is `function`."""
        subprogram = self.subprogram(kernel.name, kernel.location.file, kernel.location.line)
        function.set_metadata("dbg", subprogram)
        return KernelLines(self, subprogram)

    def file(self, path: str) -> Any:
        """The metadata of a source file."""
        pure = PurePath(path)
        return self.module.add_debug_info("DIFile", {"filename": ascii_path(pure.name or path), "directory": ascii_path(str(pure.parent))})

    def subprogram(self, name: str, path: str, line: int) -> Any:
        """The metadata of a Python function."""
        file = self.file(path)
        kind = self.module.add_debug_info("DISubroutineType", {"types": self.module.add_metadata([])})
        return self.module.add_debug_info(
            "DISubprogram",
            {
                "name": ascii_path(name),
                "scope": file,
                "file": file,
                "line": line,
                "scopeLine": line,
                "type": kind,
                "unit": self._unit,
                "spFlags": ir.DIToken("DISPFlagDefinition | DISPFlagOptimized"),
            },
            is_distinct=True,
        )


class KernelLines:
    """The places of one kernel."""

    def __init__(self, lines: Lines, subprogram: Any) -> None:
        self._lines = lines
        self._kernel = subprogram
        self._known: dict[nodes.Location, Any] = {}

    def at(self, location: nodes.Location) -> Any:
        """The metadata of an instruction at a place in the source."""
        known = self._known.get(location)
        if known is None:
            known = self._known[location] = self._make(location)
        return known

    def _make(self, location: nodes.Location) -> Any:
        place: dict[str, Any] = {"line": location.line, "column": min(location.column + 1, 0xFFFF)}
        if location.caller is None:
            place["scope"] = self._kernel
        else:
            # The line of the `def` is not known here, and nothing that is written shows it
            place["scope"] = self._lines.subprogram(location.function, location.file, 0)
            place["inlinedAt"] = self.at(location.caller)
        return self._lines.module.add_debug_info("DILocation", place)
