"""The HTML page in Debian's chromium: what its script does, and that it fits a phone. Skipped where there is no chromium."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from driver_runs import driver

INPUTS = Path(__file__).parents[1] / "Profile" / "Inputs"
CHROMIUM = shutil.which("chromium")

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a program without a graph."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    driver("report", f"--html={path}", "--", INPUTS / "mlp_activations_eager.trace.json.gz")
    return path


def said_in(page: Path, script: str, width: int = 1280) -> Any:
    """What `script` returns at the end of the page, in a window of that width."""
    said = f"<script>document.body.dataset.said = JSON.stringify((() => {{ {script} }})())</script>"
    probed = page.with_name("probed.html")
    probed.write_text(page.read_text().replace("</body>", said + "</body>"))
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={page.parent}/user"]
    command = [str(CHROMIUM), *options, f"--window-size={width},900", "--dump-dom", probed.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = re.search(r'data-said="([^"]*)"', done.stdout)
    assert found, done.stdout[-2000:]
    return json.loads(html.unescape(found[1]))


#: The table of all kernels, by their start.
KERNELS = """
    const table = [...document.querySelectorAll('table')].at(-1);
    const column = at => [...table.rows].slice(1).filter(row => !row.hidden).map(row => row.cells[at].textContent);
"""


def nanoseconds(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"ns": 1, "µs": 1e3, "ms": 1e6}[unit]


def test_tables_are_sorted_by_what_their_texts_mean(page: Path) -> None:
    before, down, up, names = said_in(
        page,
        KERNELS
        + """
        const found = [column(1)], heads = table.rows[0].cells;
        heads[1].click(); found.push(column(1));
        heads[1].click(); found.push(column(1));
        heads[2].click(); found.push(column(2));
        return found;""",
    )
    times = list(map(nanoseconds, before))
    assert times not in (sorted(times), sorted(times, reverse=True))
    assert list(map(nanoseconds, down)) == sorted(times, reverse=True)
    assert list(map(nanoseconds, up)) == sorted(times)
    assert names[0] > names[-1]


def test_tables_are_searched_by_all_words(page: Path) -> None:
    whole, found, none = said_in(
        page,
        KERNELS
        + """
        const search = table.closest('.wide').previousElementSibling.firstChild;
        const ask = text => { search.value = text; search.oninput(); return column(2); };
        return [column(2), ask('GEMM tn'), ask('no such kernel')];""",
    )
    assert found == [name for name in whole if "gemm" in name.lower() and "tn" in name.lower()]
    assert 0 < len(found) < len(whole)
    assert none == []


def test_the_timeline_zooms_and_moves(page: Path) -> None:
    views = said_in(
        page,
        """
        const lanes = document.querySelector('svg.zoom'), found = [];
        const look = () => found.push([...lanes.getAttribute('viewBox').split(' ').map(Number).slice(0, 3),
          ...[...document.querySelectorAll('text.end')].map(end => end.textContent)]);
        const press = name => [...document.querySelectorAll('button')].find(b => b.textContent === name).click();
        look();
        for (const name of ['+', '+', '→', '→', '→', '→', 'all']) { press(name); look(); }
        return found;""",
    )
    assert [view[0:3:2] for view in views[:4]] == [[100, 1000], [350, 500], [475, 250], [600, 250]]
    # It does not leave the recording.
    assert [view[0] for view in views[4:]] == [725, 850, 850, 100]
    span = nanoseconds(views[0][4])
    assert nanoseconds(views[2][3]) == pytest.approx(span * 0.375, rel=0.01)
    assert nanoseconds(views[2][4]) == pytest.approx(span * 0.625, rel=0.01)


@pytest.mark.parametrize("width", [500, 1280])
def test_nothing_is_wider_than_the_window(page: Path, width: int) -> None:
    """Wide tables move by themselves, and evidence is wrapped; 500 is as narrow as chromium's window gets."""
    wide = said_in(
        page,
        """
        for (const part of document.querySelectorAll('details')) part.open = true;
        return [document.documentElement.scrollWidth, innerWidth];""",
        width,
    )
    assert wide[0] <= wide[1]


def test_operators_are_sorted_by_their_rates(page: Path) -> None:
    """Units count, and what has no rate is last."""
    rates = said_in(
        page,
        """
        const table = [...document.querySelectorAll('table')].find(t => t.rows[0].cells[0].textContent === 'operator');
        const head = [...table.rows[0].cells].findIndex(cell => cell.textContent === 'FLOP/s');
        table.rows[0].cells[head].click();
        return [...table.rows].slice(1).map(row => row.cells[head].textContent);""",
    )
    scale = {"FLOP/s": 1, "MFLOP/s": 1e6, "GFLOP/s": 1e9, "TFLOP/s": 1e12}
    known = [float(rate.split()[0]) * scale[rate.split()[1]] for rate in rates if rate]
    assert len(known) > 1
    assert known == sorted(known, reverse=True)
    assert all(rates[: len(known)])


def test_a_page_asks_for_nothing_else(page: Path) -> None:
    text = page.read_text()
    assert not re.search(r'(src|href)="|@import|url\(|fetch\(|XMLHttpRequest|import\(', text)
    assert len(text) < 5_000_000
