"""What the Kafka door says that it speaks."""

import pytest

from runnel.broker.versions import UP_TO, answer_version, offered, speaks
from runnel.codec.apis import APIS


def test_only_what_has_a_handler_is_offered():
    assert offered([18, 0, 3]) == {0: (0, 13), 3: (0, 13), 18: (0, 4)}
    assert list(offered([18, 0, 3])) == [0, 3, 18]
    with pytest.raises(KeyError):
        offered([4711])


def test_everything_offered_can_be_decoded():
    versions = offered(APIS)
    assert all(APIS[key].first == first and last <= APIS[key].last for key, (first, last) in versions.items())
    assert {key: versions[key][1] for key in UP_TO} == dict(UP_TO)


def test_old_produce_is_listed_but_not_spoken():
    versions = offered([0])
    assert [speaks(versions, 0, version) for version in (-1, 0, 2, 3, 13, 14)] == [
        False,
        False,
        False,
        True,
        True,
        False,
    ]
    assert not speaks(versions, 1, 4)


def test_a_client_from_the_future_is_answered_in_version_0():
    versions = offered([18])
    assert [answer_version(versions, version) for version in (0, 4, 5, 99)] == [0, 4, 0, 0]
