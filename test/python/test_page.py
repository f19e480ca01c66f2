"""The HTML page in Debian's chromium: what its script does, and that it fits a phone. Skipped where there is no chromium."""

import gzip
import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from driver_runs import driver

from opprof.tools import find_tool

INPUTS = Path(__file__).parents[1] / "Profile" / "Inputs"
CHROMIUM = shutil.which("chromium")

OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu")

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium")


@pytest.fixture(scope="module", autouse=True)
def chromium_runs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Machines without shared memory or user namespaces have one that does not start."""
    folder = tmp_path_factory.mktemp("chromium")
    page = folder / "empty.html"
    page.write_text("<p>here")
    command = [
        str(CHROMIUM),
        *OPTIONS,
        f"--user-data-dir={folder}/user",
        "--dump-dom",
        page.as_uri(),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        pytest.skip("chromium shows no page in two minutes")
    if "<p>here" not in done.stdout:
        pytest.skip(f"chromium shows no page: {done.stderr[-300:]}")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a program without a graph."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    driver("report", f"--html={path}", "--", INPUTS / "mlp_activations_eager.trace.json.gz")
    return path


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a program with launch maps: two layers, whose modules have kernels."""
    path = tmp_path_factory.mktemp("compiled") / "page.html"
    profile = path.with_name("profile.opprof.json")
    launches = path.with_name("launches.json")
    launches.write_bytes(gzip.decompress((INPUTS / "gpt2.launches.json.gz").read_bytes()))
    maps = f"--launches={launches}"
    trace = str(INPUTS / "gpt2.trace.json.gz")
    tool = [find_tool("opprof-translate"), "--attribute-profile", trace, maps, "-o", str(profile)]
    subprocess.run(tool, check=True, timeout=120)
    driver("report", f"--html={path}", "--", profile)
    return path


def said_in(page: Path, script: str, width: int = 1280) -> Any:
    """What `script` returns at the end of the page, in a window of that width."""
    said = f"<script>document.body.dataset.said = JSON.stringify((() => {{ {script} }})())</script>"
    probed = page.with_name("probed.html")
    probed.write_text(page.read_text().replace("</body>", said + "</body>"))
    options = [*OPTIONS, f"--user-data-dir={page.parent}/user"]
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


@pytest.mark.parametrize("width", [500, 1280])
def test_labels_of_the_roofline_lie_apart(page: Path, width: int) -> None:
    texts, overlaps = said_in(
        page,
        """
        const texts = [...document.querySelectorAll('svg.roofline text.in:not([transform])')], over = [];
        const boxes = texts.map(text => text.getBoundingClientRect());
        for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
          const a = boxes[i], b = boxes[j];
          if (a.left < b.right && b.left < a.right && a.top < b.bottom - 1 && b.top < a.bottom - 1)
            over.push([texts[i].textContent, texts[j].textContent]);
        }
        return [texts.map(text => text.textContent), over];""",
        width,
    )
    assert len(texts) >= 3
    assert overlaps == []


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
    # Links lead to places of the page.
    assert not re.search(r'src="|href="[^#]|@import|url\(|fetch\(|XMLHttpRequest|import\(', text)
    assert len(text) < 5_000_000


@pytest.mark.parametrize("which", ["page", "compiled"])
def test_the_page_opens_with_what_pays_most(which: str, request: pytest.FixtureRequest) -> None:
    """Three findings, what each would leave, and what to do; each leads to its proof."""
    cards, first, opened = said_in(
        request.getfixturevalue(which),
        """
        const cards = [...document.querySelectorAll('.pays .finding')], links = cards.map(card => card.querySelector('a'));
        const opened = links.map(link => { link.click(); const found = document.querySelectorAll('.found');
          return found.length === 1 && '#' + found[0].id === link.getAttribute('href') && found[0].textContent; });
        return [cards.map(card => card.textContent), document.querySelector('h2').textContent, opened];""",
    )
    assert first.startswith("What pays most")
    assert len(cards) == 3
    costs = []
    for card, proof in zip(cards, opened, strict=True):
        found = re.match(
            r"([\d.]+ \S+?s)([a-z-]+)leaves ([\d.]+ \S+) of ([\d.]+ \S+) \(×([\d.]+)\)(.+)", card
        )
        assert found, card
        cost, left, whole = (nanoseconds(found[at]) for at in (1, 3, 4))
        assert cost + left == pytest.approx(whole, rel=0.02)
        assert whole / left == pytest.approx(float(found[5]), rel=0.02)
        assert proof
        assert found[2] in proof
        assert "What to do: " + found[6] in proof
        costs.append(cost)
    assert costs == sorted(costs, reverse=True)


ROOFLINE = """
    const plot = document.querySelector('svg.roofline'), box = plot.viewBox.baseVal;
    const dots = [...plot.querySelectorAll('circle')];
"""


@pytest.mark.parametrize("which", ["page", "compiled"])
def test_dots_of_the_roofline_lead_to_rows(which: str, request: pytest.FixtureRequest) -> None:
    inside, links, roofs, opened = said_in(
        request.getfixturevalue(which),
        ROOFLINE
        + """
        const inside = dots.every(dot => { const b = dot.getBBox();
          return b.x > 0 && b.y > 0 && b.x + b.width <= box.width && b.y + b.height <= box.height; });
        const links = [...plot.querySelectorAll('a')].map(a => a.getAttribute('href').slice(1));
        const roofs = [...plot.querySelectorAll('text.in')].map(t => t.textContent);
        const opened = links.map(id => {
          [...plot.querySelectorAll('a')][links.indexOf(id)].dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}));
          const found = document.querySelectorAll('tr.found');
          return found.length === 1 && found[0].id === id && found[0].checkVisibility();
        });
        return [inside, [links.length, dots.length], roofs, opened.every(Boolean)];""",
    )
    assert inside
    assert links[0] == links[1] > 3
    assert roofs == [
        "memory 4.30 TB/s",
        "bf16, fp16 788 TFLOP/s",
        "tf32 394 TFLOP/s",
        "fp32 67.0 TFLOP/s",
    ]
    assert opened


def test_no_dot_is_above_its_roof_but_by_a_cache(compiled: Path) -> None:
    """A dot above the slope has its bytes from a cache, and its text says more than 100 % of the roof."""
    wrong = said_in(
        compiled,
        ROOFLINE
        + """
        const [slope] = plot.querySelectorAll('path.memory');
        const [x1, y1, x2, y2] = slope.getAttribute('d').match(/[-\\d.]+/g).map(Number);
        return dots.filter(dot => {
          const x = dot.cx.baseVal.value, above = dot.cy.baseVal.value < y1 + (x - x1) * (y2 - y1) / (x2 - x1) - 1;
          const share = +/([\\d.]+) % of its roof/.exec(dot.textContent)[1];
          return above && share < 99;
        }).map(dot => dot.textContent);""",
    )
    assert wrong == []


def test_kernels_without_a_place_say_why(compiled: Path) -> None:
    reasons = said_in(
        compiled,
        "return [...document.querySelectorAll('ul.without li')].map(li => li.textContent);",
    )
    assert reasons
    assert all(re.search(r"kernels?, .*: (they|the|sizes|no|it)", reason) for reason in reasons)


FLAME = """
    const flame = document.querySelector('.flame'), frames = [...flame.children];
    const shown = () => frames.filter(frame => !frame.hidden);
    const press = key => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
    const widest = depth => shown().filter(frame => frame.style.getPropertyValue('--d') == depth)
      .sort((a, b) => b.clientWidth - a.clientWidth)[0];
"""


@pytest.mark.parametrize("width", [500, 1280])
def test_modules_zoom_by_click_and_by_keys(compiled: Path, width: int) -> None:
    names, all_width, clicked, after, out, below = said_in(
        compiled,
        FLAME
        + """
        const names = frames.map(frame => frame.textContent), all = flame.clientWidth;
        const sum = shown().filter(f => f.style.getPropertyValue('--d') == 1).reduce((n, f) => n + f.getBoundingClientRect().width, 0);
        const target = widest(2);
        target.click();
        const after = [target.getBoundingClientRect().width, shown().length, flame.nextElementSibling.textContent];
        target.focus();
        press('ArrowUp');
        const up = document.activeElement.textContent;
        press('ArrowDown');
        const down = document.activeElement === target;
        press('Escape');
        const out = [shown().length, target.getBoundingClientRect().width, document.activeElement.textContent];
        press('Home');
        const one = frames.filter(f => f.tabIndex === 0);
        return [names, [all, sum], [target.title, up, down], after, out, [one.length, one[0].textContent]];""",
        width,
    )
    assert names[0] == "all"
    assert any(re.fullmatch(r"h\.\d+", name) for name in names)
    # What has nodes sums to the whole, but for the border.
    assert all_width[1] == pytest.approx(all_width[0], abs=3)
    title, up, down = clicked
    assert after[0] == pytest.approx(all_width[0], abs=2)
    assert after[1] < len(names)
    assert after[2] == title
    assert up in names
    assert down
    assert out[1] < after[0] - 2
    assert below == [1, "all"]


def test_frames_lie_in_what_they_are_in(compiled: Path) -> None:
    outside = said_in(
        compiled,
        FLAME
        + """
        const places = shown().map(f => [+f.style.getPropertyValue('--d'), f.getBoundingClientRect(), f.textContent]);
        return places.filter(([depth, box], at) => depth && !places.some(([outer, around]) =>
          outer === depth - 1 && around.left <= box.left + 1 && around.right >= box.right - 1)).map(place => place[2]);""",
    )
    assert outside == []


def test_a_page_of_ten_thousand_nodes_is_no_heavier_than_a_mail(compiled: Path) -> None:
    """What is left out is said, and what is there leads to rows that are there."""
    profile = json.loads(compiled.with_name("profile.opprof.json").read_bytes())
    nodes, kernels = profile["nodes"], profile["kernels"]
    times = 10_000 // len(nodes) + 1
    profile.update(nodes=[], kernels=[], findings=[])
    for again in range(times):
        # The launches lead to the first ones.
        end = f"__again_{again}" if again else ""
        for node in nodes:
            ran = [kernel + again * len(kernels) for kernel in node.get("kernels", [])]
            place = {
                "name": node["name"] + end,
                "module": f"stage.{again}.{node.get('module', '')}",
            }
            profile["nodes"].append({**node, **place, "kernels": ran})
        for kernel in kernels:
            made = {
                "id": kernel["id"] + again * len(kernels),
                "explanation": "because of this " * 20,
            }
            made["nodes"] = [name + end for name in kernel.get("nodes", [])]
            profile["kernels"].append({**kernel, **made})
    for total in ("kernels", "kernel_time_ns"):
        profile["summary"][total] *= times
    page = compiled.with_name("large.html")
    large = compiled.with_name("large.opprof.json")
    large.write_text(json.dumps(profile))
    driver("report", f"--html={page}", "--", large)
    assert len(profile["nodes"]) > 10_000
    assert 1_000_000 < page.stat().st_size < 5_000_000
    text = page.read_text()
    links = re.findall(r'href="#([^"]+)"', text)
    assert len(links) > 10
    assert not set(links) - set(re.findall(r' id="([^"]+)"', text))
    for table in ("node", "kernel"):
        shown = len(re.findall(rf'<tr id="{table}\d', text))
        ran = (
            profile["kernels"]
            if table == "kernel"
            else [n for n in profile["nodes"] if n["kernels"]]
        )
        assert f"{len(ran) - shown} more" in text
