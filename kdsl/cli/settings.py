"""`--set NAME=VALUE`: values of `Const` parameters and element types of type variables, from text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kdsl.compiler import Kernel
from kdsl.lang.types import DTYPES
from kdsl.lang.views import ConstAnnotation

_NAME = re.compile(r"\w+(\.\w+)?(\[\d+\])?|len\(\w+\)")
"""Of a setting, or of a value of a launch."""
_BOOLS = {"true": True, "True": True, "1": True, "false": False, "False": False, "0": False}


class WrongSetting(Exception):
    """A setting that cannot be read, or that no kernel has. The message is for people."""


def parse_settings(texts: Iterable[str]) -> dict[str, str]:
    """Names and values as written. Raises WrongSetting."""
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not _NAME.fullmatch(name) or not value.strip():
            raise WrongSetting(f"--set takes NAME=VALUE, such as --set T=f32 or --set tile=16; not {text!r}")
        if name in settings:
            raise WrongSetting(f"--set gives {name} twice")
        settings[name] = value.strip()
    return settings


def settings_of(kernel: Kernel, texts: Mapping[str, str]) -> dict[str, Any]:
    """The settings that this kernel takes, as the values that `Kernel.compile` wants. Raises WrongSetting if one is missing or cannot be read."""
    wanted = _settings(kernel)
    missing = [setting for setting in wanted if setting.name not in texts and setting.default is None]
    if missing:
        examples = " ".join(f"--set {setting.name}={setting.example}" for setting in missing)
        named = ", ".join(setting.name for setting in missing)
        raise WrongSetting(f"kernel {kernel.name} is compiled for given {named}; say for which, as in: {examples}")
    return {s.name: s.read(texts[s.name]) if s.name in texts else s.default for s in wanted}


def refuse_unknown(kernels: Iterable[Kernel], texts: Mapping[str, str], others: Iterable[str] = ()) -> None:
    """Raise WrongSetting if some setting belongs to none of the kernels; `others` are names that have a meaning, too."""
    known = {setting.name: None for kernel in kernels for setting in _settings(kernel)} | dict.fromkeys(others)
    for name in texts:
        if name not in known:
            has = f"the settings are {', '.join(known)}" if known else "there are no settings"
            raise WrongSetting(f"no kernel here has a setting {name}; {has}")


@dataclass(frozen=True)
class _Setting:
    """Something that is known only when a kernel is compiled."""

    name: str
    """Name of the parameter or of the type variable."""
    choices: Mapping[str, Any]
    """What it can be, by the words for it; empty for a number."""
    number: Callable[[str], Any] | None
    """Reads a number, None if it is a choice."""
    takes: str
    """What it takes, for people."""
    example: str
    """A value."""
    default: Any = None
    """Its value where none is given, None if one has to be."""

    def read(self, text: str) -> Any:
        """The value that the text stands for."""
        try:
            return self.choices[text] if self.number is None else self.number(text)
        except (KeyError, ValueError):
            raise WrongSetting(f"{self.name} is {self.takes}; not {text!r}") from None


def _settings(kernel: Kernel) -> list[_Setting]:
    found = []
    for variable in kernel.declaration.type_variables:
        allowed = {str(of): of for of in variable.__constraints__ or DTYPES.values()}
        found.append(_Setting(variable.__name__, allowed, None, f"an element type: {', '.join(allowed)}", next(iter(allowed))))
    for p in kernel.declaration.parameters:
        if isinstance(p.type, ConstAnnotation):
            if p.type.python_type is bool:
                found.append(_Setting(p.name, _BOOLS, None, "true or false", "true", p.default))
            elif p.type.python_type is int:
                found.append(_Setting(p.name, {}, _integer, "an integer", "1", p.default))
            else:
                found.append(_Setting(p.name, {}, float, "a number", "1.0", p.default))
    return found


def _integer(text: str) -> int:
    return int(text, 0)
