"""The table of error codes."""

from kio.schema.errors import ErrorCode as Theirs

from runnel.codec.errors import ErrorCode, error_name


def test_codes_names_and_retriability_are_those_of_kafka():
    assert {(int(code), code.name.lower(), code.retriable) for code in ErrorCode} == {
        (int(code), code.name, code.retriable) for code in Theirs
    }


def test_every_code_says_something_of_its_own():
    texts = [code.text for code in ErrorCode]
    assert len(set(texts)) == len(texts)
    assert all(text[0].islower() and not text.endswith(".") for text in texts)


def test_a_code_from_the_future_still_has_a_name():
    assert error_name(3) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error_name(12_345) == "error 12345"
