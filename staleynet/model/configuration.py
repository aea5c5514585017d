"""The sizes and settings of a model and of its training, by name.

One frozen dataclass holds everything that a run must agree on with its checkpoint. How recordings become mel frames is the audio
package's business; where a run's files go and how many steps it takes on one occasion are command-line options.

| configuration | for | width | layers | heads | context | levels x codewords | parameters |
|---|---|---|---|---|---|---|---|
| `tiny` | CPUs and tests | 96 | 2 | 4 | 256 | 4 x 64 | 270,816 |
| `small` | a small GPU, or a patient CPU | 256 | 6 | 4 | 512 | 4 x 256 | 5,115,136 |
| `base` | a large GPU | 512 | 12 | 8 | 1024 | 4 x 256 | 38,810,112 |
| `large` | a large GPU; product quantisation into eight bands | 512 | 13 | 8 | 2048 | 8 x 256 | 43,005,440 |

Embedding and output projection are one matrix (Press and Wolf 2017), positions are learned, there are no biases.
"""

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

Quantization = Literal["residual", "product"]
Sound = Literal["full", "half"]


class ConfigurationError(ValueError):
    """A configuration that does not exist, cannot be read, or contradicts itself."""


@dataclass(frozen=True)
class Configuration:
    """What a model is and how it is trained. Raises `ConfigurationError` for values that contradict each other."""

    name: str
    """How the configuration is called on the command line and in the checkpoint."""
    sound: Sound
    """What is heard: everything up to 8 kHz, or, at half the rate and a quarter of the cost, up to 5 kHz."""
    quantization: Quantization
    """How a mel frame becomes `levels` tokens: codebooks one after another on the residual, or one for each part of the columns."""
    levels: int
    """Tokens of one mel frame, coarse to fine (residual) or low to high frequency (product)."""
    codewords: int
    """Codewords of each level. A token is `level * codewords + codeword`, so the vocabulary is `levels * codewords`."""
    width: int
    """Elements of the residual stream at one position."""
    layers: int
    """Blocks of attention and feed-forward."""
    heads: int
    """Attention heads; each has `width / heads` elements."""
    context: int
    """Tokens that the model can look back on; a whole number of frames, so that a window always starts with level 0."""
    sequences: int
    """Sequences of `context` tokens in one training step."""
    steps: int
    """Training steps when the command line does not say."""
    learning_rate: float
    """Peak step size, reached after the warm-up."""
    final_learning_rate: float
    """Step size at the end of the cosine decay."""
    warmup_steps: int
    """Steps over which the step size rises linearly from zero."""
    weight_decay: float
    """Share of a matrix removed per step and unit of step size; norm weights do not decay."""
    beta1: float = 0.9
    """Decay of the running mean of the gradient."""
    beta2: float = 0.95
    """Decay of the running mean of the squared gradient; 0.95 as in GPT-3 (Brown et al. 2020, appendix B)."""
    epsilon: float = 1e-8
    """Keeps AdamW's division finite."""
    gradient_norm_limit: float = 1.0
    """A gradient with a larger Euclidean norm is scaled down to this one (Pascanu et al. 2013)."""
    norm_epsilon: float = 1e-5
    """Keeps RMSNorm's division finite."""
    initial_deviation: float = 0.02
    """Standard deviation of initial weights; projections into the residual stream divide it by sqrt(2 * layers), as in GPT-2.

    GPT-2's 0.02 is for a width of 768 and more; narrow models train much faster from about 0.8 / sqrt(width), which the named ones have.
    """
    evaluation_interval: int = 100
    """Training steps between two evaluations on the validation tokens, and between two checkpoints."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is int and (type(value) is not int or value < 1):
                raise ConfigurationError(f"configuration {self.name!r}: {field.name} must be a whole number of at least 1, not {value!r}")
            if field.type is float and (type(value) not in (int, float) or not math.isfinite(value) or value < 0):
                raise ConfigurationError(f"configuration {self.name!r}: {field.name} must be a finite number of at least 0, not {value!r}")
        for name in ("beta1", "beta2"):
            if getattr(self, name) >= 1:
                raise ConfigurationError(f"configuration {self.name!r}: {name} must be less than 1, not {getattr(self, name)!r}")
        for name in ("epsilon", "gradient_norm_limit", "norm_epsilon"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"configuration {self.name!r}: {name} must be greater than 0, not {getattr(self, name)!r}")
        if self.sound not in get_args(Sound):
            raise ConfigurationError(f"configuration {self.name!r}: sound must be 'full' or 'half', not {self.sound!r}")
        if self.quantization not in get_args(Quantization):
            raise ConfigurationError(
                f"configuration {self.name!r}: quantization must be 'residual' or 'product', not {self.quantization!r}"
            )
        if self.width % self.heads:
            raise ConfigurationError(f"configuration {self.name!r}: width {self.width} is not a multiple of heads {self.heads}")
        if self.context % self.levels or self.context < 2 * self.levels:
            raise ConfigurationError(
                f"configuration {self.name!r}: context {self.context} is not a multiple of levels {self.levels}, at least twice it"
            )

    @property
    def vocabulary(self) -> int:
        """Number of different tokens."""
        return self.levels * self.codewords

    @property
    def head_width(self) -> int:
        """Elements of a query, key or value of one head."""
        return self.width // self.heads

    @property
    def feed_forward(self) -> int:
        """Elements between the two matrices of a feed-forward part: four times the width (Vaswani et al. 2017)."""
        return 4 * self.width

    def to_json(self) -> dict[str, object]:
        """The fields as what `from_json` reads."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(values: object, *, source: str) -> "Configuration":
        """The configuration with these fields. `source` says in errors where they come from.

        Raises `ConfigurationError` for a missing or unknown field or a value of the wrong type.
        """
        if not isinstance(values, dict):
            raise ConfigurationError(f"{source}: a configuration is a JSON object with one entry per field, not {type(values).__name__}")
        fields = {field.name: field for field in dataclasses.fields(Configuration)}
        unknown = sorted(set(values) - set(fields))
        missing = sorted(name for name, field in fields.items() if field.default is dataclasses.MISSING and name not in values)
        if unknown or missing:
            parts = [f"unknown fields: {', '.join(unknown)}"] * bool(unknown) + [f"missing fields: {', '.join(missing)}"] * bool(missing)
            raise ConfigurationError(f"{source}: {'; '.join(parts)}")
        if not isinstance(values["name"], str):
            raise ConfigurationError(f"{source}: name must be a string, not {values['name']!r}")
        return Configuration(**values)


CONFIGURATIONS = {
    configuration.name: configuration
    for configuration in (
        Configuration(
            name="tiny",
            sound="half",
            quantization="residual",
            levels=4,
            codewords=64,
            width=96,
            layers=2,
            heads=4,
            context=256,
            sequences=8,
            steps=200,
            learning_rate=6e-3,
            final_learning_rate=6e-4,
            warmup_steps=20,
            weight_decay=0.1,
            evaluation_interval=50,
            initial_deviation=0.08,
        ),
        Configuration(
            name="small",
            sound="full",
            quantization="residual",
            levels=4,
            codewords=256,
            width=256,
            layers=6,
            heads=4,
            context=512,
            sequences=16,
            steps=600,
            learning_rate=1e-3,
            final_learning_rate=1e-4,
            warmup_steps=60,
            weight_decay=0.1,
            initial_deviation=0.05,
        ),
        Configuration(
            name="base",
            sound="full",
            quantization="residual",
            levels=4,
            codewords=256,
            width=512,
            layers=12,
            heads=8,
            context=1024,
            sequences=16,
            steps=10000,
            learning_rate=6e-4,
            final_learning_rate=6e-5,
            warmup_steps=300,
            weight_decay=0.1,
            initial_deviation=0.035,
            evaluation_interval=250,
        ),
        Configuration(
            name="large",
            sound="full",
            quantization="product",
            levels=8,
            codewords=256,
            width=512,
            layers=13,
            heads=8,
            context=2048,
            sequences=8,
            steps=20000,
            learning_rate=6e-4,
            final_learning_rate=6e-5,
            warmup_steps=500,
            weight_decay=0.1,
            initial_deviation=0.035,
            evaluation_interval=500,
        ),
    )
}
"""The named configurations."""


def configuration_named(name: str) -> Configuration:
    """The configuration of this name, or the one in the JSON file at this path (a name that ends in `.json`).

    Raises `ConfigurationError` when there is no such configuration, or the file cannot be read or is not one.
    """
    if name in CONFIGURATIONS:
        return CONFIGURATIONS[name]
    if not name.endswith(".json"):
        raise ConfigurationError(f"no configuration {name!r}: choose one of {', '.join(CONFIGURATIONS)}, or give the path of a .json file")
    try:
        values = json.loads(Path(name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"configuration {name}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"configuration {name}: not JSON: {error}") from error
    return Configuration.from_json(values, source=f"configuration {name}")
