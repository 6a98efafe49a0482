"""What may be wrong with what is asked of a stream, and the protocol's answers to it."""

from runnel.api.durable.chunks import StreamGone
from runnel.api.messages import Response
from runnel.api.problems import problem_of
from runnel.api.streams import answers, words
from runnel.errors import AlreadyThere, NotThere, Refused, RunnelError


class Different(AlreadyThere):
    """The stream exists, and is not as it is wanted."""


class WrongType(Refused):
    """The append is not of the stream's content type."""

    def __init__(self, wanted: str, end: int) -> None:
        super().__init__(f"the stream's content type is {wanted}")
        self.wanted = wanted
        self.end = end


def answer_of(error: RunnelError) -> Response:
    """The protocol's answer to whatever went wrong."""
    match error:
        case StreamGone():
            return answers.gone()
        case WrongType():
            return answers.type_mismatch(error.wanted, error.end)
        case NotThere():
            return answers.missing()
        case AlreadyThere():
            return answers.refused(error, 409)
        case Refused():
            return answers.refused(error)
    response = problem_of(error)
    return Response(response.status, {**response.headers, **words.BROWSER}, response.body)
