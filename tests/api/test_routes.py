"""The table of routes."""

from typing import Any

import pytest

from runnel.api.messages import Request, Response
from runnel.api.routes import Routes
from runnel.errors import Refused


class Ear:
    """Stands where an Answer stands."""

    def __init__(self) -> None:
        self.heard: list[Response] = []

    def __call__(self, response: Response) -> None:
        self.heard.append(response)


def ask(routes: Routes, method: str, path: str) -> Response:
    ear: Any = Ear()
    path, _, query = path.partition("?")
    routes(Request(method, path, query, {}, b""), ear)
    (response,) = ear.heard
    return response


def says(word: str) -> Any:
    def handle(request: Request, respond: Any, found: dict[str, str]) -> None:
        respond(Response(200, {}, f"{word} {request.method} {found}".encode()))

    return handle


@pytest.fixture
def routes() -> Routes:
    table = Routes(options={"access-control-allow-origin": "*"})
    table.add("GET", "/v1/stream/{path…}", says("stream"))
    table.add("PUT", "/v1/stream/{path…}", says("stream"))
    table.add("GET", "/{bucket}/{stream}", says("bucket"))
    table.add("GET", "/{bucket}/streams", says("list"))
    table.add("GET", "/v1/topics", says("topics"))
    table.add("GET", "/", says("root"))
    return table


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/", "root GET {}"),
        ("/v1/topics", "topics GET {}"),
        ("/v1/streams", "list GET {'bucket': 'v1'}"),
        ("/shop/streams", "list GET {'bucket': 'shop'}"),
        ("/shop/orders", "bucket GET {'bucket': 'shop', 'stream': 'orders'}"),
        ("/v1/stream/a/b/c", "stream GET {'path': 'a/b/c'}"),
        ("/v1/stream/%C3%A9", "stream GET {'path': 'é'}"),
        ("/v1/stream", "bucket GET {'bucket': 'v1', 'stream': 'stream'}"),
    ],
)
def test_the_most_literal_pattern_wins(routes: Routes, path: str, answer: str) -> None:
    assert bytes(ask(routes, "GET", path).body).decode() == answer


@pytest.mark.parametrize("path", ["/nowhere", "/v1/stream/", "//x", "/a/b/c", "*"])
def test_what_fits_no_pattern_is_not_there(routes: Routes, path: str) -> None:
    assert ask(routes, "GET", path).status == 404


def test_a_wrong_method_is_told_the_right_ones(routes: Routes) -> None:
    response = ask(routes, "DELETE", "/v1/stream/x")
    assert response.status == 405
    assert response.headers["allow"] == "GET, HEAD, OPTIONS, PUT"


def test_options_are_answered_everywhere(routes: Routes) -> None:
    response = ask(routes, "OPTIONS", "/v1/topics")
    assert (response.status, response.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
    assert response.headers["access-control-allow-origin"] == "*"
    assert ask(routes, "OPTIONS", "/nowhere").status == 204


def test_head_is_served_by_get(routes: Routes) -> None:
    assert ask(routes, "HEAD", "/v1/topics").body == b"topics HEAD {}"


@pytest.mark.parametrize("path", ["/a/../b", "/a/%2e%2e/b", "/%2E/b", "/a/%00", "/a/%ff%fe", "/" + "x/" * 70])
def test_path_tricks_are_refused(routes: Routes, path: str) -> None:
    with pytest.raises(Refused):
        ask(routes, "GET", path)


def test_an_encoded_slash_stays_inside_its_part(routes: Routes) -> None:
    assert ask(routes, "GET", "/shop/a%2Fb").body == b"bucket GET {'bucket': 'shop', 'stream': 'a/b'}"


def test_query_pairs_keep_their_order_and_a_single_value_is_single() -> None:
    request = Request("GET", "/", "b=1&a=%C3%A9&b=2&c&d=+%2B", {}, b"")
    assert request.query == [("b", "1"), ("a", "é"), ("b", "2"), ("c", ""), ("d", " +")]
    assert request.ask("a") == "é"
    assert request.ask("z") is None
    with pytest.raises(Refused):
        request.ask("b")
    with pytest.raises(Refused):
        _ = Request("GET", "/", "&".join(["a=1"] * 100), {}, b"").query
