"""Five kinds of error, named after what their reader should do next.

    Refused      your request is wrong: change it
    Fenced       someone newer took over: stop, or come back as their successor
    Unavailable  nothing happened: try again
    Uncertain    it may have happened: find out before trying again
    Corrupt      bytes are not what was written: stop, keep the evidence

A message says what failed and on what, in lower case, without a full stop. The doors translate the kinds once:
`broker` to Kafka error codes, `api` to HTTP statuses, `ui` to exit codes.
"""


class RunnelError(Exception):
    """Every error that Runnel raises on purpose."""


class Refused(RunnelError):
    """The request is wrong; the same request will be refused again."""


class NotThere(Refused):
    """The named thing does not exist."""


class AlreadyThere(Refused):
    """The name is taken."""


class Fenced(RunnelError):
    """Someone newer acts in this place now."""


class Unavailable(RunnelError):
    """It certainly did not happen; trying again may work."""


class Overloaded(Unavailable):
    """A named bound is reached; try again when others are done."""


class Uncertain(RunnelError):
    """It may or may not have happened; only a look can tell."""


class Corrupt(RunnelError):
    """Bytes differ from what was written, or are of a version that this program does not know."""
