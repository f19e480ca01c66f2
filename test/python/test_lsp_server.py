"""opprof-lsp-server over its protocol: what an editor is told about graphs, launches, markers and rewrite scripts."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opprof.tools import find_tool

TESTS = Path(__file__).parents[1]

GRAPH = """\
!x = tensor<2x8xf32, #fx.tensor<"cpu">>

fx.graph @model stage "export" (%x: !x) -> (!x) {
  %relu = fx.node "aten.relu.default"(%x) : (!x) -> !x loc(fused["relu", "model.py":3:0])
  fx.output(%relu) : (!x)
}
"""

SCRIPT = """\
!x = tensor<2x8xf32, #fx.tensor<"cpu">>

module attributes {transform.with_named_sequence} {
  fx.graph private @pattern(%x: !x) -> (!x) {
    %0 = fx.node "aten.relu.default"(%x) : (!x) -> !x
    fx.output(%0) : (!x)
  }
  fx.graph private @replacement(%x: !x) -> (!x) {
    %0 = fx.node "aten.gelu.default"(%x) : (!x) -> !x
    fx.output(%0) : (!x)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.fx.region_strategy %root {precision = "float16"} : !transform.any_op
    transform.yield
  }
}
"""


class Editor:
    """The editor's side of the protocol: one server, spoken to through its stdin and stdout."""

    def __init__(self) -> None:
        self.server = subprocess.Popen(
            [find_tool("opprof-lsp-server")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.requests = 0
        self.capabilities = self.ask("initialize", processId=None, rootUri=None, capabilities={})[
            "capabilities"
        ]
        self.tell("initialized")

    def close(self) -> int:
        self.ask("shutdown")
        self.tell("exit")
        return self.server.wait(timeout=60)

    def open(self, text: str, uri: str = "file:///document.mlir") -> list[dict[str, Any]]:
        """Opens a document, and returns the diagnostics that the server publishes for it."""
        self.tell(
            "textDocument/didOpen",
            textDocument={"uri": uri, "languageId": "mlir", "version": 1, "text": text},
        )
        return self.diagnostics(uri)

    def diagnostics(self, uri: str = "file:///document.mlir") -> list[dict[str, Any]]:
        """What the server publishes next for a document."""
        while True:
            message = self._receive()
            if (
                message.get("method") == "textDocument/publishDiagnostics"
                and message["params"]["uri"] == uri
            ):
                return message["params"]["diagnostics"]

    def at(
        self,
        method: str,
        text: str,
        place: str,
        offset: int = 0,
        uri: str = "file:///document.mlir",
    ) -> Any:
        """Asks about the character `offset` behind the start of the last occurrence of `place` in the document."""
        start = text.rindex(place) + offset
        line = text.count("\n", 0, start)
        position = {"line": line, "character": start - (text.rfind("\n", 0, start) + 1)}
        return self.ask(f"textDocument/{method}", textDocument={"uri": uri}, position=position)

    def ask(self, method: str, **params: Any) -> Any:
        self.requests += 1
        self._send({"id": self.requests, "method": method, "params": params})
        while True:
            message = self._receive()
            if message.get("id") == self.requests:
                assert "error" not in message, message
                return message["result"]

    def tell(self, method: str, **params: Any) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.server.stdin
        self.server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.server.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self.server.stdout
        length = 0
        while header := self.server.stdout.readline().strip():
            if found := re.fullmatch(rb"Content-Length: (\d+)", header):
                length = int(found[1])
        assert length, "the server ended"
        return json.loads(self.server.stdout.read(length))


@pytest.fixture
def editor() -> Iterator[Editor]:
    editor = Editor()
    yield editor
    assert editor.close() == 0


def source(text: str, area: dict[str, Any]) -> str:
    """What a range of the protocol, which lies on one line, covers."""
    start, end = area["start"], area["end"]
    assert start["line"] == end["line"]
    return text.splitlines()[start["line"]][start["character"] : end["character"]]


@pytest.mark.parametrize(
    "file",
    sorted(TESTS.glob("Dialect/**/ops.mlir")),
    ids=lambda file: str(file.relative_to(TESTS / "Dialect")),
)
def test_files_of_each_dialect_are_clean(editor: Editor, file: Path) -> None:
    assert editor.open(file.read_text()) == []


def test_a_graph_and_a_script_are_clean(editor: Editor) -> None:
    assert editor.open(GRAPH) == []
    assert editor.open(SCRIPT, "file:///script.mlir") == []


def test_scripts_as_recommend_writes_them_are_clean(editor: Editor, tmp_path: Path) -> None:
    graph = TESTS / "Rewrite" / "shared-input-gemms.mlir"
    subprocess.run(
        [
            find_tool("opprof-opt"),
            f"--recommend-rewrites=dir={tmp_path} device=H200",
            graph,
            "-o",
            "/dev/null",
        ],
        check=True,
    )
    scripts = sorted(tmp_path.glob("*.mlir"))
    assert scripts
    for script in scripts:
        assert editor.open(script.read_text(), script.as_uri()) == [], script.name


@pytest.mark.parametrize(
    ("text", "right", "wrong", "says", "marks"),
    [
        (GRAPH, "(%x) :", "(%y) :", "use of undeclared SSA value name", "%y"),
        (SCRIPT, "-> @replacement", "-> @absent", "@absent", "transform.fx.replace_subgraph"),
        (
            SCRIPT,
            '"float16"',
            '"float8"',
            '"float16" and "bfloat16" are known',
            "transform.fx.region_strategy",
        ),
    ],
    ids=["value", "symbol", "precision"],
)
def test_what_is_wrong_is_marked_where_it_is(
    editor: Editor, text: str, right: str, wrong: str, says: str, marks: str
) -> None:
    text = text.replace(right, wrong)
    [diagnostic] = editor.open(text)
    assert says in diagnostic["message"]
    assert source(text, diagnostic["range"]) == marks
    error = 1
    assert diagnostic["severity"] == error


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("module {\n" + "(" * 2000, "nests deeper than 1024", 1),
        (
            "\n".join(["#a0 = [0, 0]", *(f"#a{i} = [#a{i - 1}, #a{i - 1}]" for i in range(1, 64))]),
            "words: they hold one another over and over",
            None,
        ),
    ],
    ids=["depth", "words"],
)
def test_what_the_tools_refuse_is_refused(
    editor: Editor, text: str, says: str, line: int | None
) -> None:
    [diagnostic] = editor.open(text)
    assert says in diagnostic["message"]
    assert diagnostic["source"] == "opprof"
    assert line is None or diagnostic["range"]["start"]["line"] == line
    # The server is there as before, and what is mended is clean.
    assert editor.capabilities["textDocumentSync"]["change"] == 1
    editor.tell(
        "textDocument/didChange",
        textDocument={"uri": "file:///document.mlir", "version": 2},
        contentChanges=[{"text": GRAPH}],
    )
    assert editor.diagnostics() == []
    assert editor.open(GRAPH, "file:///other.mlir") == []


def test_hover_shows_a_node(editor: Editor) -> None:
    assert editor.capabilities["hoverProvider"]
    editor.open(GRAPH)
    hover = editor.at("hover", GRAPH, "fx.node")
    assert source(GRAPH, hover["range"]) == "fx.node"
    assert '"fx.node"' in hover["contents"]["value"]
    assert "aten.relu.default" in hover["contents"]["value"]


@pytest.mark.parametrize(
    ("text", "use", "line", "marks"),
    [
        (GRAPH, "%relu", "%relu = fx.node", "%relu"),
        (SCRIPT, "@replacement :", "fx.graph private @replacement", "fx.graph"),
        (SCRIPT, "%root {", "transform.named_sequence", "%root"),
    ],
    ids=["node", "graph", "handle"],
)
def test_definitions_are_found(editor: Editor, text: str, use: str, line: str, marks: str) -> None:
    editor.open(text)
    [found] = editor.at("definition", text, use)
    assert found["uri"] == "file:///document.mlir"
    assert source(text, found["range"]) == marks
    assert found["range"]["start"]["line"] == text.count("\n", 0, text.index(line))
