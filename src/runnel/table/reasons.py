"""Why bytes could not be read, in words: the numbers come from the compiled helper (native/common.h) and its twins."""

from enum import IntEnum


class Reason(IntEnum):
    """What is wrong with a batch or a value; `words` is the text that a dead letter carries."""

    CUT = 1
    REST = 2
    VARINT = 3
    LENGTH = 4
    OFFSET = 5
    UTF8 = 6
    TIME = 7
    INDEX = 8
    RANGE = 9
    TYPE = 10
    SYNTAX = 11
    DEPTH = 12
    PREFIX = 13
    MISSING = 14
    NULL = 15

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    Reason.CUT: "the bytes end too early",
    Reason.REST: "bytes are left over at the end",
    Reason.VARINT: "a number is written with too many bytes",
    Reason.LENGTH: "a length is negative or does not fit",
    Reason.OFFSET: "record offsets do not increase, or leave their batch",
    Reason.UTF8: "text is not UTF-8",
    Reason.TIME: "a time is outside of what a table can hold",
    Reason.INDEX: "a branch of a union or a symbol of an enum does not exist",
    Reason.RANGE: "a number is outside of its type",
    Reason.TYPE: "a value has another type than the schema says",
    Reason.SYNTAX: "the bytes are not in this format",
    Reason.DEPTH: "values are nested too deeply",
    Reason.PREFIX: "the value is framed for another schema",
    Reason.MISSING: "a required field is missing",
    Reason.NULL: "there is no value",
}


class Unreadable(Exception):  # it never leaves the plain twins
    """Inside the plain twins: this record cannot be read."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.words)
        self.reason = reason
