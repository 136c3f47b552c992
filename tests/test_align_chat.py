"""Endpoints that speak OpenAI's chat completions: what is sent, and what is made of every kind of answer."""

from __future__ import annotations

import base64
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from endpoint import Answer, Service, said, serving
from isthmus.align import caption, chat, rewrite
from isthmus.align.chat import Endpoint
from isthmus.encoders import data_urls
from isthmus.encoders.data_urls import data_url
from isthmus.errors import BadInput, CannotReach


def endpoint(service: Service, waits: list[float] | None = None, **changes: Any) -> Endpoint:
    settings: dict[str, Any] = {"model": "m", "url": service.url, "timeout": 30.0}
    return Endpoint(**settings | changes, wait=(waits if waits is not None else []).append)


def test_a_picture_is_sent_as_a_data_url_with_the_prompt_at_temperature_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    Image.new("RGB", (4, 4), "red").save(tmp_path / "a.png")
    (tmp_path / "prompt.txt").write_text("# for people\nSay what you see.\n")
    with serving([said(" a red square\n")]) as service:
        captioner = caption.load(
            f"openai:org/seer@{service.url}/", prompt=tmp_path / "prompt.txt", cache=tmp_path / "kept"
        )
        assert captioner.caption([tmp_path / "a.png"] * 2) == ["a red square"] * 2
        assert captioner.caption([tmp_path / "a.png"]) == ["a red square"]
    assert len(service.asked) == 1
    sent = service.asked[0]
    assert (sent["model"], sent["temperature"], service.paths) == ("org/seer", 0, ["/v1/chat/completions"])
    text, image = sent["messages"][0]["content"]
    assert text == {"type": "text", "text": "Say what you see."}
    kind, _, data = image["image_url"]["url"].partition(",")
    assert (kind, base64.b64decode(data)) == ("data:image/png;base64", (tmp_path / "a.png").read_bytes())
    assert service.headers[0]["Authorization"] == "Bearer secret"


def test_another_prompt_asks_again(tmp_path: Path) -> None:
    with serving([said("one"), said("two")]) as service:
        for text, expected in (("Say a word.", "one"), ("Say another.", "two"), ("Say a word.", "one")):
            (tmp_path / "prompt.txt").write_text(text)
            made = caption.load(f"openai:m@{service.url}", prompt=tmp_path / "prompt.txt", cache=tmp_path / "kept")
            assert made.caption([np.zeros((2, 2), np.uint8)]) == [expected]


def test_pictures_that_not_everybody_reads_or_that_are_large_are_sent_as_jpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    def sent(image: Any) -> tuple[str, tuple[int, int]]:
        kind, _, data = data_url(image).partition(",")
        with Image.open(BytesIO(base64.b64decode(data))) as read:
            return kind, read.size

    bitmap = BytesIO()
    Image.new("RGB", (3, 2)).save(bitmap, "BMP")
    assert sent(bitmap.getvalue()) == ("data:image/jpeg;base64", (3, 2))
    assert sent(np.zeros((5, 4, 3), np.uint8)) == ("data:image/jpeg;base64", (4, 5))
    png = BytesIO()
    Image.new("RGB", (30, 20)).save(png, "PNG")
    monkeypatch.setattr(data_urls, "LARGEST", 10)
    monkeypatch.setattr(data_urls, "SIDE", 15)
    assert sent(png.getvalue()) == ("data:image/jpeg;base64", (15, 10))


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_is_tried_again_with_longer_waits(status: int) -> None:
    waits: list[float] = []
    with serving([Answer(status=status), Answer(status=status), said("at last")]) as service:
        assert endpoint(service, waits).ask([]) == "at last"
    assert waits == [0.5, 1.0]


def test_tries_have_an_end() -> None:
    with serving([Answer(b'{"error": {"message": "too\\nbusy"}}', 503)]) as service:
        with pytest.raises(CannotReach, match="503 Service Unavailable: too busy"):
            endpoint(service, tries=4).ask([])
        assert len(service.asked) == 4


@pytest.mark.parametrize("body", [b'{"error": {"message": "no such model"}}', b'{"error": "no such model"}'])
def test_a_wrong_question_is_asked_once(body: bytes) -> None:
    with serving([Answer(body, 404)]) as service:
        with pytest.raises(CannotReach, match="404 Not Found: no such model"):
            endpoint(service).ask([])
        assert len(service.asked) == 1


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"",
            b"<html>",
            b"{}",
            b"[]",
            b'{"choices": []}',
            b'{"choices": [{"message": null}]}',
            b"[" * 100_000,
            b"\xff",
        ),
        json.dumps({"choices": [{"message": {"content": ["a"]}}]}).encode(),
    ],
)
def test_an_answer_that_is_none_is_refused_after_as_many_tries(body: bytes) -> None:
    with serving([Answer(body)]) as service:
        with pytest.raises(CannotReach, match=r"answer is not (a chat completion|JSON)"):
            endpoint(service).ask([])
        assert len(service.asked) == 3


def test_an_answer_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "LONGEST", 100)
    with serving([said("x" * 200)]) as service, pytest.raises(CannotReach, match="more than 100 bytes"):
        endpoint(service, tries=1).ask([])


def test_an_answer_that_is_cut_short_is_refused() -> None:
    short = Answer(b'{"choices"', headers={"Content-Length": "500"})
    with serving([short]) as service, pytest.raises(CannotReach, match="The request to"):
        endpoint(service, tries=1).ask([])


def test_silence_is_waited_for_so_long_and_no_longer() -> None:
    with serving([Answer(never=True)]) as service, pytest.raises(CannotReach, match="timed out"):
        endpoint(service, tries=2, timeout=0.05).ask([])


def test_nobody_there_is_said() -> None:
    with serving([said("")]) as service:
        gone = endpoint(service, tries=2)
    with pytest.raises(CannotReach, match="refused"):
        gone.ask([])


@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_redirect_is_not_followed_as_it_would_take_the_key_along(status: int) -> None:
    with serving([said("caught")]) as other:
        elsewhere = Answer(status=status, headers={"Location": f"{other.url}/chat/completions"})
        with serving([elsewhere]) as service, pytest.raises(CannotReach, match=f"answered {status}"):
            endpoint(service, key="secret").ask([])
        assert other.paths == []


def test_an_endpoint_elsewhere_is_not_asked_when_offline_and_one_here_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISTHMUS_OFFLINE", "1")
    with pytest.raises(CannotReach, match="offline is set"):
        Endpoint.parse("m@https://example.invalid/v1").ask([])
    with serving([said("here")]) as service:
        assert endpoint(service).ask([]) == "here"


def test_a_proxy_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with serving([said("here")]) as service:
        assert endpoint(service).ask([]) == "here"


def test_names_keep_secrets_and_odd_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISTHMUS_OPENAI_KEY", "mine")
    monkeypatch.setenv("OPENAI_API_KEY", "other")
    made = Endpoint.parse("org/m@v2@https://host:8/v1/")
    assert (made.model, made.key, made.name) == ("org/m@v2", "mine", "openai:org/m@v2@https://host:8/v1")
    assert "mine" not in repr(made)
    for name in ("m", "m@", "@http://h", "m@ftp://h/v1", "m@http://"):
        with pytest.raises(BadInput, match="names no endpoint"):
            Endpoint.parse(name)


def test_a_rewriter_asks_with_the_system_prompt_and_the_query(tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("Shorten.")
    with serving([said('Query: "red sofa"')]) as service:
        name = f"forge:openai:m@{service.url}"
        made = rewrite.load(name, prompt=tmp_path / "prompt.txt")
        assert [one.text for one in made.rewrite(["I want a red sofa"])] == ["red sofa"]
    system, user = service.asked[0]["messages"]
    assert (system, user["content"]) == ({"role": "system", "content": "Shorten."}, "I want a red sofa")
    assert service.asked[0]["max_tokens"] == 256


def test_several_queries_are_asked_for_together_and_keep_their_order() -> None:
    with serving([said("a"), Answer(status=404), said("c"), said("d")]) as service:
        made = rewrite.load(f"forge:openai:m@{service.url}")
        found = made.rewrite(["1", "2", "3", "4", "5", "6"])
    assert len(found) == 6
    assert sorted(one.text for one in found if one.fell_back is None) == ["a", "c", "d", "d", "d"]
    assert [one.fell_back for one in found if one.fell_back] == [
        f"the model failed: The request to openai:m@{service.url} failed: it answered 404 Not Found. "
        "Check the URL, the model's name and the key."
    ]


@pytest.mark.parametrize("key", ["sk-SECRET\n", "  sk-SECRET  "])
def test_a_key_is_taken_without_the_line_break_that_files_end_with(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISTHMUS_OPENAI_KEY", key)
    assert Endpoint.parse("m@http://localhost:1/v1").key == "sk-SECRET"


@pytest.mark.parametrize("key", ["sk-SEC\nRET", "sk-SECRÉT"])
def test_a_key_that_is_none_is_refused_without_being_shown(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISTHMUS_OPENAI_KEY", key)
    with pytest.raises(BadInput, match="ISTHMUS_OPENAI_KEY") as refused:
        Endpoint.parse("m@http://localhost:1/v1")
    assert "SEC" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://me:PASSW@localhost/v1", "http://localhost/v1?key=PASSW", "http://localhost/v1#x"]
)
def test_a_url_with_more_than_a_place_in_it_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(BadInput, match="plain URL") as refused:
        Endpoint.parse(f"m@{url}")
    assert "PASSW" not in str(refused.value)
