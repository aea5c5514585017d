"""What a run must know to go on with the same bits, as it stands in a checkpoint's `state.json`."""

from dataclasses import asdict, dataclass, fields

from staleynet.model.checkpoint import CheckpointError


@dataclass(frozen=True)
class RunState:
    """A run at the moment of a checkpoint. The sampler has no state of its own: its batches depend on seed and step."""

    step: int
    """Steps taken."""
    steps: int
    """Steps that the learning rate's schedule spans."""
    seed: int
    """Of the initial weights, the batches, the tokenizer and the sample."""
    data: str | None
    """Absolute path of the recordings; None is the demo recording."""
    tokens: str
    """SHA-256 of all tokens, training and validation: a run goes on only with the same music."""
    openings: list[int]
    """How often each codeword of level 0 occurs in the training tokens."""

    def to_json(self) -> dict[str, object]:
        """What `from_json` reads."""
        return asdict(self)

    @staticmethod
    def from_json(values: dict[str, object], *, source: str) -> "RunState":
        """Raises `CheckpointError`, which names `source`, if a field is missing or of the wrong type."""
        names = {field.name for field in fields(RunState)}
        if set(values) != names:
            raise CheckpointError(f"{source}: the run's state has {', '.join(sorted(values))}, not {', '.join(sorted(names))}")
        state = RunState(**values)  # type: ignore[arg-type]  # the types are checked below
        whole = (state.step, state.steps, state.seed, *(state.openings if isinstance(state.openings, list) else (None,)))
        if any(type(number) is not int or number < 0 for number in whole) or sum(state.openings) < 1:
            raise CheckpointError(f"{source}: the run's state has a value of the wrong type or sign")
        if not isinstance(state.tokens, str) or not (state.data is None or isinstance(state.data, str)):
            raise CheckpointError(f"{source}: the run's state has a value of the wrong type")
        return state
