"""What goes wrong with the data of a run, as types that an entry point can report in one line."""


class DataError(Exception):
    """Recordings or settings from which no tokens can be made. The message says what to do."""


class NoRecordings(DataError):
    """There is no recording that can be used."""


class TooLittleMusic(DataError):
    """The recordings are too short for one window of training and one of validation."""
