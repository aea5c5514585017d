"""What goes wrong with a tokenizer, as one type."""


class TokenizerError(Exception):
    """A tokenizer that cannot be trained, or whose files are missing, damaged or of another format. The message names the file."""
