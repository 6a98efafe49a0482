"""What an answer of a bucket means, and what it leaves open. Pure: from the text of an error to a Trouble.

obstore raises a few exception classes and puts the rest into their text: the HTTP status, the `<Code>` of the body, or
the kind of a broken connection. This module is the one place that reads such text. It hands on a few words of it,
never the whole: the whole can hold request headers.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_KIND = re.compile(r"HttpError \{\s*kind: (\w+)")
_NO_CREDENTIALS = ("169.254.169.254", "metadata.google.internal", "instance metadata", "InstanceCredential")
_SLOW = {429, 503}


class Meaning(Enum):
    MISSING = auto()  # no object of this name
    TAKEN = auto()  # an object of this name is there
    OVER_THE_END = auto()
    NO_BUCKET = auto()
    NO_CREDENTIALS = auto()
    FORBIDDEN = auto()
    WRONG = auto()  # the request will be refused again
    SLOW_DOWN = auto()  # nothing happened; ask less often
    UNREACHABLE = auto()  # nothing happened; there is nobody
    UNCLEAR = auto()  # it may have happened


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    meaning: Meaning
    words: str

    @property
    def passes(self) -> bool:
        """Whether trying again may help."""
        return self.meaning in {Meaning.SLOW_DOWN, Meaning.UNREACHABLE, Meaning.UNCLEAR}


def trouble_of(error: BaseException) -> Trouble:
    """What happened, as far as the error tells."""
    if isinstance(error, TimeoutError):
        return Trouble(meaning=Meaning.UNCLEAR, words="no answer in time")
    text = str(error)
    status = int(found[1]) if (found := _STATUS.search(text)) else None
    code = found[1] if (found := _CODE.search(text)) else ""
    if any(sign in text for sign in _NO_CREDENTIALS):
        return Trouble(meaning=Meaning.NO_CREDENTIALS, words="no credentials found")
    if status is None:
        return _without_status(error, text)
    words = f"{status} {code}".strip()
    return Trouble(meaning=_meaning_of(status, code), words=words)


def _meaning_of(status: int, code: str) -> Meaning:
    if code in {"NoSuchBucket", "ContainerNotFound", "InvalidBucketName"}:
        return Meaning.NO_BUCKET
    if status == 404:
        return Meaning.MISSING
    if status in {304, 412} or code == "BlobAlreadyExists":
        return Meaning.TAKEN
    if status == 416:
        return Meaning.OVER_THE_END
    if status in {401, 403}:
        return Meaning.FORBIDDEN
    if status in _SLOW or code in {"SlowDown", "ServerBusy"}:
        return Meaning.SLOW_DOWN
    # 409: S3 was busy with another put or delete of this name and wants to be asked again.
    if status in {408, 409} or status >= 500:
        return Meaning.UNCLEAR
    return Meaning.WRONG


def _without_status(error: BaseException, text: str) -> Trouble:
    kind = found[1] if (found := _KIND.search(text)) else ""
    if kind == "Connect":
        if "dns error" in text or "failed to lookup" in text:
            return Trouble(meaning=Meaning.UNREACHABLE, words="the host name is unknown")
        refused = "ConnectionRefused" in text
        return Trouble(meaning=Meaning.UNREACHABLE, words="connection refused" if refused else "no connection")
    name = type(error).__name__
    if name in {"NotFoundError", "FileNotFoundError"}:
        return Trouble(meaning=Meaning.MISSING, words="not found")
    if name == "AlreadyExistsError":
        return Trouble(meaning=Meaning.TAKEN, words="taken")
    if name in {"PermissionDeniedError", "UnauthenticatedError"}:
        return Trouble(meaning=Meaning.FORBIDDEN, words="access denied")
    if kind == "Timeout":
        return Trouble(meaning=Meaning.UNCLEAR, words="no answer in time")
    return Trouble(meaning=Meaning.UNCLEAR, words="the connection broke")
