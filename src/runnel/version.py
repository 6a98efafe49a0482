"""The version, on the lowest floor, so that everything may name it."""

__version__ = "0.1.0"
