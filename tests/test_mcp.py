"""Collections as tools for agents, called by the official client over stdio and HTTP."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, ImageContent, TextContent
from PIL import Image
from starlette.testclient import TestClient
from typer.testing import CliRunner

import isthmus
from isthmus import Collection, Document, connect
from isthmus.agents.answers import LONGEST, PictureLimits
from isthmus.agents.run import NeededKey, http_app
from isthmus.agents.server import create_server
from isthmus.cli import app
from isthmus.errors import BadInput
from isthmus.search import SearchInterface
from isthmus.serve.keys import create_key
from isthmus.serve.run import bind, configured, url_of
from isthmus.serve.settings import ServeSettings
from serving import address_of, command, fill, png

Work = Callable[[Client], Awaitable[None]]
NOT_OURS = [
    ({"Host": "evil.example.org"}, 421),
    ({"Origin": "https://evil.example.org"}, 403),
    ({"Origin": "null"}, 403),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Path:
    folder = tmp_path_factory.mktemp("agents")
    fill(folder, tiny, count=12)
    return folder


@pytest.fixture
def local(tmp_path: Path, tiny: str) -> Iterator[Collection]:
    with Collection.open(tmp_path / "c.isthmus", tiny, "center", follow=False) as opened:
        opened.add([Document("a", "a red cat", metadata={"lang": "en", "path": "/home/me/cats/a.txt"})])
        opened.add([Document("b", image=png(1)), Document("c", "a dog", png(2))])
        yield opened


def call(things: SearchInterface, work: Work, **options: Any) -> None:
    """Connect the client to a server in this process."""

    async def connected() -> None:
        async with Client(create_server(things, **options)) as client:
            await work(client)

    asyncio.run(connected())


def texts(result: CallToolResult) -> list[Any]:
    assert not result.is_error, result.content
    return [json.loads(one.text) for one in result.content if isinstance(one, TextContent)]


def pictures(result: CallToolResult) -> list[Image.Image]:
    found = [one for one in result.content if isinstance(one, ImageContent)]
    return [Image.open(BytesIO(b64decode(one.data))) for one in found]


def error(result: CallToolResult) -> str:
    assert result.is_error
    (only,) = result.content
    assert isinstance(only, TextContent)
    return only.text


async def checked(client: Client) -> None:
    """Call every tool that reads, over any transport."""
    assert {tool.name for tool in (await client.list_tools()).tools} == {"search", "get", "stats"}
    found = await client.call_tool("search", {"query": "a red cat", "k": 3})
    hits = texts(found)
    assert [hit["rank"] for hit in hits] == [1, 2, 3]
    (document,) = texts(await client.call_tool("get", {"id": hits[0]["id"]}))
    assert document["id"] == hits[0]["id"]
    (facts,) = texts(await client.call_tool("stats", {}))
    assert facts["documents"] == 12
    assert "number" in facts["filter_fields"]


def test_an_agent_that_starts_the_command_finds_documents(root: Path) -> None:
    async def work() -> None:
        arguments = ["-m", "isthmus", "mcp", str(root / "things.isthmus")]
        source = {
            "PYTHONPATH": str(Path(isthmus.__file__).parent.parent)
        }  # little else of the environment is passed on
        process = stdio_client(StdioServerParameters(command=sys.executable, args=arguments, env=source))
        async with Client(process) as client:
            await checked(client)

    asyncio.run(work())


@contextmanager
def over_http(things: SearchInterface, **given: Any) -> Iterator[str]:
    """Serve the tools over HTTP on a free port."""
    settings = ServeSettings(paths=(Path(),), port=0, **given)
    tools = http_app(create_server(things), settings, NeededKey("read", "things"))
    with bind(settings) as taken:
        server = uvicorn.Server(configured(tools, settings))
        thread = Thread(target=server.run, kwargs={"sockets": [taken]})
        thread.start()
        try:
            yield f"{url_of(settings, taken)}mcp"
        finally:
            server.should_exit = True
            thread.join()


def test_an_agent_finds_documents_over_http(root: Path) -> None:
    async def work(url: str) -> None:
        async with Client(url) as client:
            await checked(client)

    with Collection.open(root / "things.isthmus") as things, over_http(things) as url:
        asyncio.run(work(url))
        with httpx2.Client() as browser:  # a page of another site, by DNS rebinding or a plain request
            for header, status in NOT_OURS:
                answer = browser.post(url, json={}, headers={"Accept": "application/json", **header})
                assert answer.status_code == status


@pytest.mark.parametrize(("host", "named"), [("127.0.0.2", "localhost"), ("0.0.0.0", "any.example")])  # noqa: S104
def test_other_sites_are_refused_on_every_address(root: Path, tmp_path: Path, host: str, named: str) -> None:
    keys, headers, refused = None, {"Accept": "application/json, text/event-stream"}, NOT_OURS
    if named != "localhost":  # any name passes there, as keys are needed
        keys, refused = tmp_path / "keys.json", NOT_OURS[1:]
        headers["Authorization"] = f"Bearer {create_key(keys, 'one', 'read')[1]}"
    settings = ServeSettings(paths=(Path(),), host=host, keys=keys)
    with Collection.open(root / "things.isthmus") as things:
        tools = http_app(create_server(things), settings, NeededKey("read", "things"))
        with TestClient(tools, base_url=f"http://{named}") as client:
            assert client.post("/mcp", json={}, headers=headers).status_code == 400  # it passes, and is no message
            for header, status in refused:
                assert client.post("/mcp", json={}, headers={**headers, **header}).status_code == status


def test_without_keys_tools_over_http_are_for_this_machine_alone(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["mcp", str(tmp_path), "--http", "--host", "0.0.0.0"])  # noqa: S104
    assert isinstance(done.exception, BadInput)
    assert "there are no keys" in str(done.exception)


def test_over_http_keys_are_asked_for_if_there_are_some(root: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    tokens = [create_key(keys, "one", "read", names)[1] for names in (["things"], ["others"])]

    @asynccontextmanager
    async def client(url: str, token: str) -> AsyncIterator[Client]:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
            Client(streamable_http_client(url, http_client=http)) as opened,
        ):
            yield opened

    async def work(url: str) -> None:
        async with client(url, tokens[0]) as opened:
            await checked(opened)

    with Collection.open(root / "things.isthmus") as things, over_http(things, keys=keys) as url:
        asyncio.run(work(url))
        for token, status in ((tokens[1], 403), ("wrong", 401)):
            answer = httpx2.post(url, json={}, headers={"Authorization": f"Bearer {token}"})
            assert (answer.status_code, answer.json()["error"]["type"]) == (status, "Refused")


def test_the_command_over_http_lets_keys_that_may_write_add_documents_and_no_others(tmp_path: Path, tiny: str) -> None:
    fill(tmp_path, tiny, count=3)
    keys = tmp_path / "keys.json"
    reads, writes = (create_key(keys, scope, scope, ["things"])[1] for scope in ("read", "write"))
    options = ("--http", "--port", "0", "--write", "--keys", str(keys))

    async def work(url: str) -> None:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {writes}"}) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            assert "add" in {tool.name for tool in (await client.list_tools()).tools}
            (report,) = texts(await client.call_tool("add", {"documents": [{"id": "new", "text": "a red cat"}]}))
            assert report["added"] == ["new"]
            assert texts(await client.call_tool("get", {"id": "new"}))[0]["text"] == "a red cat"

    with command("mcp", str(tmp_path / "things.isthmus"), *options) as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        asyncio.run(work(url))
        for headers, status in (({"Authorization": f"Bearer {reads}"}, 403), ({}, 401)):
            assert httpx2.post(url, json={}, headers=headers).status_code == status
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(60)
    with Collection.open(tmp_path / "things.isthmus", follow=False) as things:
        assert things.get("new").text == "a red cat"


def test_a_collection_on_a_server_has_the_same_tools(root: Path) -> None:
    with address_of(root) as address, connect(address) as things:
        call(things, checked)


def test_a_picture_comes_back_as_a_picture_and_small(local: Collection) -> None:
    async def work(client: Client) -> None:
        found = await client.call_tool("search", {"query": "dog", "k": 3})
        kinds = ["image" if isinstance(one, ImageContent) else json.loads(one.text)["id"] for one in found.content]  # type: ignore[union-attr]
        assert len(kinds) == 4  # one picture at most, and it follows its hit
        assert kinds[kinds.index("image") - 1] in ("b", "c")
        (picture,) = pictures(found)
        assert max(picture.size) <= 64
        assert pictures(await client.call_tool("search", {"query": "dog", "pictures": False})) == []
        assert len(pictures(await client.call_tool("get", {"id": "b"}))) == 1

    large = BytesIO()
    Image.new("RGB", (900, 300), "red").save(large, "PNG")
    local.add([Document("b", image=large.getvalue()), Document("c", "a dog", large.getvalue())])
    call(local, work, pictures=PictureLimits(side=64, count=1))


def test_a_picture_whose_file_is_gone_leaves_the_hit(local: Collection, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(3))
    local.add([Document("file", image=tmp_path / "a.png")])
    (tmp_path / "a.png").unlink()

    async def work(client: Client) -> None:
        found = await client.call_tool("search", {"query": "dog", "where": {"id": "file"}})
        assert ([hit["id"] for hit in texts(found)], pictures(found)) == (["file"], [])

    call(local, work)


def test_a_picture_finds_itself(local: Collection) -> None:
    async def work(client: Client) -> None:
        for given in (b64encode(png(1)).decode(), f"data:image/png;base64,{b64encode(png(1)).decode()}"):
            assert texts(await client.call_tool("search", {"image": given, "k": 1}))[0]["id"] == "b"

    call(local, work)


def test_filters_and_modalities_reach_the_search(local: Collection) -> None:
    async def work(client: Client) -> None:
        options: dict[str, dict[str, Any]] = {"a": {"where": {"lang": "en"}}, "c": {"modalities": ["image+text"]}}
        for name, option in options.items():
            assert [hit["id"] for hit in texts(await client.call_tool("search", {"query": "dog", **option}))] == [name]
        nothing = await client.call_tool("search", {"query": "dog", "where": {"lang": "none"}})
        assert nothing.content[0].text == "No document matches."  # type: ignore[union-attr]

    call(local, work)


def test_a_long_text_comes_in_pieces(local: Collection) -> None:
    long = "a red cat " * (LONGEST // 8)
    local.add([Document("long", long)])

    async def work(client: Client) -> None:
        (first,) = texts(await client.call_tool("get", {"id": "long"}))
        (second,) = texts(await client.call_tool("get", {"id": "long", "start": first["next_start"]}))
        assert first["text"] + second["text"] == long
        assert (first["characters"], "next_start" in second) == (len(long), False)

    call(local, work)


def test_an_agent_cannot_write_unless_it_is_allowed_to(local: Collection) -> None:
    documents = {"documents": [{"id": "new", "text": "a red cat", "metadata": {"lang": "de"}}]}

    async def reads(client: Client) -> None:
        assert "Unknown tool" in error(await client.call_tool("add", documents))
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in (await client.list_tools()).tools)

    async def writes(client: Client) -> None:
        image = b64encode(png(7)).decode()
        several = [
            *documents["documents"],
            {"id": "p", "image": image},
            {"id": "bad", "image": b64encode(b"x").decode()},
        ]
        (report,) = texts(await client.call_tool("add", {"documents": several}))
        assert (report["added"], report["skipped"][0]["id"]) == (["new", "p"], "bad")
        adds = next(tool for tool in (await client.list_tools()).tools if tool.name == "add")
        assert adds.annotations is not None
        assert adds.annotations.read_only_hint is False
        assert "not a path" in json.dumps(adds.input_schema)

    call(local, reads)
    assert "new" not in local
    call(local, writes, write=True)
    assert local.get("new").metadata == {"lang": "de"}


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("get", {"id": "none"}, "No document is called"),
        ("search", {}, "neither text nor image"),
        ("search", {"query": "cat", "where": {"lang": {"around": 3}}}, "around"),
        ("search", {"query": "cat", "k": 1000}, "less than or equal to 50"),
        ("search", {"image": "/etc/passwd"}, "Paths are not read"),
        ("add", {"documents": [{"id": "x", "path": "/etc/passwd"}]}, "path"),
    ],
)
def test_an_agent_is_told_what_was_wrong(local: Collection, tool: str, arguments: dict[str, Any], said: str) -> None:
    async def work(client: Client) -> None:
        message = error(await client.call_tool(tool, arguments))
        assert said in message
        assert str(local.path.parent) not in message

    call(local, work, write=True)


def test_a_tool_that_fails_says_nothing_of_this_machine_and_the_log_has_it(
    local: Collection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret of /srv/private")

    monkeypatch.setattr(Collection, "search", fail)

    async def work(client: Client) -> None:
        message = error(await client.call_tool("search", {"query": "cat"}))
        assert "secret" not in message

    call(local, work)
    assert "secret of /srv/private" in caplog.text


def test_answers_say_nothing_of_where_files_are(local: Collection) -> None:
    async def work(client: Client) -> None:
        for result in (await client.call_tool("get", {"id": "a"}), await client.call_tool("search", {"query": "cat"})):
            assert "/home/me" not in result.model_dump_json()

    call(local, work)


def test_every_tool_and_every_argument_is_described(local: Collection) -> None:
    async def work(client: Client) -> None:
        assert "probability" in (client.instructions or "")
        for tool in (await client.list_tools()).tools:
            assert len(tool.description or "") > 60
            for name, field in tool.input_schema.get("properties", {}).items():
                assert "description" in field or name == "documents", (tool.name, name)

    call(local, work, write=True)
