"""Configurations: the sizes that the documentation promises, and what is refused."""

import json
import re
from pathlib import Path

import pytest

from staleynet.model import configuration as module
from staleynet.model.configuration import CONFIGURATIONS, Configuration, ConfigurationError, configuration_named
from staleynet.model.parameters import layout


def test_documented_parameter_counts() -> None:
    """The table in the module's docstring names every configuration with its exact count."""
    documented = {
        name: int(count.replace(",", "")) for name, count in re.findall(r"^\| `(\w+)` \|.*\| ([\d,]+) \|$", module.__doc__ or "", re.M)
    }
    assert documented == {name: layout(c).size for name, c in CONFIGURATIONS.items()}


def test_base_has_the_promised_shape() -> None:
    base = CONFIGURATIONS["base"]
    assert (base.width, base.layers, base.heads, base.context, base.vocabulary) == (512, 12, 8, 1024, 1024)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_json_round_trip(name: str, tmp_path: Path) -> None:
    path = tmp_path / "copy.json"
    path.write_text(json.dumps(CONFIGURATIONS[name].to_json()))
    assert configuration_named(str(path)) == configuration_named(name) == CONFIGURATIONS[name]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("width", 65, "multiple of heads"),
        ("context", 255, "multiple of levels"),
        ("context", 2, "at least twice"),
        ("layers", 0, "layers"),
        ("layers", 2.0, "layers"),
        ("layers", True, "layers"),
        ("learning_rate", float("nan"), "learning_rate"),
        ("beta1", -0.1, "beta1"),
        ("beta2", 1.0, "beta2"),
        ("epsilon", 0.0, "epsilon"),
        ("quantization", "scalar", "'residual' or 'product'"),
    ],
)
def test_contradictions_are_refused(field: str, value: object, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Configuration(**(CONFIGURATIONS["tiny"].to_json() | {field: value}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        ("{", "not JSON"),
        ("[]", "JSON object"),
        ("\xff", "cannot be read"),
        (json.dumps(CONFIGURATIONS["tiny"].to_json() | {"depth": 3}), "unknown fields: depth"),
        (json.dumps({"name": "x"}), "missing fields: codewords"),
        (json.dumps(CONFIGURATIONS["tiny"].to_json() | {"name": 7}), "name must be a string"),
        (json.dumps(CONFIGURATIONS["tiny"].to_json() | {"width": "64"}), "width must be"),
    ],
)
def test_bad_files_are_named(content: str | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    if content is not None:
        path.write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigurationError, match=words) as caught:
        configuration_named(str(path))
    assert "mine" in str(caught.value) or "'x'" in str(caught.value) or "'tiny'" in str(caught.value)


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="tiny, small, base, large"):
        configuration_named("huge")


def test_configuration_is_a_value() -> None:
    assert isinstance(hash(CONFIGURATIONS["tiny"]), int)
    assert Configuration.from_json(CONFIGURATIONS["tiny"].to_json(), source="test") == CONFIGURATIONS["tiny"]
