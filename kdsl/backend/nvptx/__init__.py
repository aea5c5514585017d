"""Typed IR to PTX: `compile_ptx(kernel, target)`, the table of targets, and the symbol of a kernel in its module."""

from kdsl.backend.nvptx.compile import compile_module, compile_ptx
from kdsl.backend.nvptx.limits import LimitError
from kdsl.backend.nvptx.needs import target_for
from kdsl.backend.nvptx.symbols import entry_name
from kdsl.backend.nvptx.targets import TARGETS, Target, TargetError

__all__ = ["TARGETS", "LimitError", "Target", "TargetError", "compile_module", "compile_ptx", "entry_name", "target_for"]
