"""The explorer in a real browser: one session, pages of subjects made by hand.

Without chromium these are skipped; with ``TREESTICK_BROWSER=required`` that is a failure.
Screenshots go to the folder that ``TREESTICK_SCREENSHOTS`` names.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import pages
from treestick.report.explorer.inline import to_html

NAMES = ("chromium", "chromium-browser", "google-chrome")
DESKTOP = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}

FRAMES = """async () => {
    const times = [];
    for (let k = 0; k < 60; k++) {
        zoomMiddle(k < 30 ? 1.2 : 1 / 1.2);
        await new Promise(requestAnimationFrame);
        const before = performance.now();
        draw();
        times.push(performance.now() - before);
    }
    return times.sort((a, b) => a - b)[45];
}"""
"""Zooms in and out, and returns how many milliseconds of work three of four frames are at most.
From frame to frame it takes longer where the machine does other things too, such as other tests."""

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        reason = f"there is no browser: none of {', '.join(NAMES)}"
        if os.environ.get("TREESTICK_BROWSER") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Write a page when it is first asked for."""
    folder = tmp_path_factory.mktemp("pages")
    made: dict[str, Path] = {}
    subjects: dict[str, Callable[[], Any]] = {
        "animals": pages.animals,
        "apart": lambda: pages.animals(agree=False),
        "hostile": pages.hostile,
        "large": pages.large,
        "wines": pages.wines,
        "images": lambda: pages.with_images(3_000, 32, colour=True),
    }

    def get(name: str) -> Path:
        if name not in made:
            made[name] = pages.save_page(subjects[name](), folder, name)
        return made[name]

    return get


@pytest.fixture
def visit(browser: Browser, files: Callable[[str], Path]) -> Iterator[Open]:
    """Open a page; at the end, nothing may have gone wrong in any."""
    wrong: list[str] = []
    contexts = []

    def asked(url: str, address: str) -> None:
        if url != address:
            wrong.append(f"request: {url}")

    def go(name: str | Path, **options: Any) -> Page:
        path = files(name) if isinstance(name, str) else name
        context = browser.new_context(**{"viewport": DESKTOP, **options})
        contexts.append(context)
        page = context.new_page()
        address = path.resolve().as_uri()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: asked(request.url, address))
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        return page

    yield go
    for context in contexts:
        context.close()
    assert wrong == []


def screenshot(page: Page, name: str) -> None:
    folder = os.environ.get("TREESTICK_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.wait_for_timeout(300)  # movement has ended
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def until(page: Page, condition: str) -> None:
    """Wait for a condition; playwright's own way would evaluate text, which the page forbids."""
    for _ in range(100):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never: {condition}")


def rows(page: Page) -> int:
    return page.locator("#outline [role=treeitem]").count()


def click_card(page: Page, node: int, knob: bool = False) -> None:
    """Click on a node of the drawing, or on the sign at its right that folds it."""
    place = page.evaluate(
        """([node, knob]) => {
            const card = app.layout.cardOf.get(node);
            const x = card.x + (knob ? CARD.width : CARD.width / 3);
            return [view.x + x * view.k, view.y + (card.y + card.height / 2) * view.k];
        }""",
        [node, knob],
    )
    page.locator("#canvas").click(position={"x": place[0], "y": place[1]})


def test_a_node_shows_its_path_counts_differences_columns_and_data(visit: Open) -> None:
    page = visit("animals")
    assert page.title() == "Beasts and stones"
    assert "12 draws of the posterior" in page.locator("#subtitle").inner_text()
    assert rows(page) == 7
    click_card(page, 4)
    panel = page.locator("#panel-content")
    panel.get_by_text("Data at this node").wait_for()
    assert panel.locator(".path").inner_text().split() == ["Root", "Node", "1", "Node", "4"]
    numbers = dict(
        zip(
            panel.locator("dt").all_inner_texts(),
            panel.locator("dd").all_inner_texts(),
            strict=True,
        )
    )
    assert (numbers["here"], numbers["below"], numbers["depth"]) == ("34", "0", "2")
    assert numbers["support"] == "60 %"
    assert panel.locator(".differences .name").first.inner_text() == "cat"
    assert panel.locator("h3").all_inner_texts()[1:4] == ["group", "year", "authors"]
    assert panel.locator(".histogram rect").count() == 13
    assert panel.locator(".text-button").count() == 20
    panel.get_by_text("Show more").click()
    panel.locator(".text-button").nth(33).wait_for()
    screenshot(page, "node")


def test_nodes_fold_and_unfold(visit: Open) -> None:
    page = visit("animals")
    click_card(page, 1, knob=True)
    assert rows(page) == 5
    assert "2 nodes with" in page.locator("#folded").inner_text()
    click_card(page, 1, knob=True)
    assert rows(page) == 7
    page.locator("#threshold").fill("900")
    assert rows(page) < 7
    assert page.locator("#least").inner_text().endswith("+ data")
    page.locator("#threshold").fill("0")
    assert rows(page) == 7
    assert page.locator("#folded").inner_text() == "All 7 nodes shown"


def test_the_drawing_zooms_at_the_pointer_and_moves(visit: Open) -> None:
    page = visit("animals")
    place = "() => [screenX(app.layout.cards[0]), screenY(app.layout.cards[0]), view.k]"
    box = page.locator("#canvas").bounding_box()
    assert box is not None
    x, y, k = page.evaluate(place)
    page.mouse.move(box["x"] + x, box["y"] + y)
    page.mouse.wheel(0, -300)
    until(page, f"view.k > {1.2 * k}")
    assert page.evaluate(place)[:2] == pytest.approx([x, y], abs=1.5)
    page.mouse.move(box["x"] + 300, box["y"] + 150)
    page.mouse.down()
    page.mouse.move(box["x"] + 360, box["y"] + 190, steps=3)
    page.mouse.up()
    assert page.evaluate(place)[:2] == pytest.approx([x + 60, y + 40], abs=1.5)
    page.locator("#zoom-fit").click()
    until(page, f"Math.abs(view.k - {k}) < 0.01")


def test_search_finds_ids_words_and_labels(visit: Open) -> None:
    page = visit("animals")
    page.locator("#search").fill("page 17")
    page.locator("#results [role=option]").first.wait_for()
    assert page.locator("#results .small").inner_text() == "0 nodes and 11 data found"
    page.locator("#search").press("Enter")
    page.locator("#panel-content h2").get_by_text("page 17", exact=True).wait_for()
    page.get_by_text("Where it sits across the draws").wait_for()
    shares = page.locator("#panel-content .bars .number").all_inner_texts()
    assert sum(float(share.removesuffix(" %")) for share in shares) == pytest.approx(100, abs=3)
    places = page.locator("#panel-content .bars .link").all_inner_texts()
    assert places[0] == "Node 3"  # as datum 17 of the tree that all draws are like
    assert float(shares[0].removesuffix(" %")) > 60
    screenshot(page, "datum")
    page.locator("#search").fill("whale")
    page.locator("#results strong").get_by_text("Node 5").wait_for()
    assert page.evaluate("app.found.size") > 0
    page.locator("#search").press("Escape")
    assert page.locator("#results").is_hidden()


def test_another_draw_can_be_looked_at(visit: Open) -> None:
    page = visit("animals")
    options = page.locator("#draw option").all_inner_texts()
    assert options[:2] == ["best draw (7 nodes)", "chain 1, draw 1 (7 nodes)"]
    before = page.evaluate("Array.from(app.tree.at)")
    page.select_option("#draw", "3")
    until(page, "app.tree.number === 3")
    assert page.evaluate("Array.from(app.tree.at)") != before
    assert page.evaluate("app.tree.support") is None


def test_names_of_nodes_of_real_numbers_say_in_which_direction(visit: Open) -> None:
    page = visit("wines")
    plain = "app.tree.labels.map((label) => label && label.replace(/[\\u2068\\u2069]/g, ''))"
    assert page.evaluate(plain) == [None, "↓ ash · ↑ alcohol", "↓ proline · ↓ alcohol"]
    screenshot(page, "reals")


def test_diagnostics_have_a_verdict_and_traces(visit: Open) -> None:
    page = visit("animals")
    page.locator("#tab-chains").click()
    assert page.locator(".verdict h2").inner_text() == "The chains agree"
    assert page.locator(".trace").count() == 5
    assert page.locator(".trace").first.locator("path").count() == 2
    assert page.locator("#view-tree").is_hidden()
    screenshot(page, "diagnostics")
    page = visit("apart")
    page.locator("#tab-chains").click()
    assert page.locator(".verdict h2").inner_text() == "Not converged"


def test_the_keyboard_is_enough(visit: Open) -> None:
    page = visit("animals")
    page.locator("#outline [tabindex='0']").focus()
    page.keyboard.press("ArrowDown")
    chosen = page.locator("#outline [aria-selected=true]")
    assert page.evaluate("app.selected") == 1
    assert chosen.get_attribute("aria-level") == "2"
    assert chosen.get_attribute("aria-expanded") == "true"
    page.keyboard.press("ArrowLeft")
    assert chosen.get_attribute("aria-expanded") == "false"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("app.tree.parent[app.selected]") == 1
    page.keyboard.press("Home")
    assert page.evaluate("app.selected") == 0
    assert page.evaluate("document.activeElement.id") == "item-0"
    page.locator("#tab-tree").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#view-chains").is_visible()


def test_the_screen_reader_hears_a_tree(visit: Open) -> None:
    page = visit("animals")
    heard = page.locator("#outline").aria_snapshot()
    assert heard.startswith('- tree "Nodes"')
    assert heard.count("treeitem") == 7
    assert page.locator("button:not([aria-label])").evaluate_all(
        "buttons => buttons.every((button) => button.textContent.trim())"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(visit: Open, scheme: str) -> None:
    page = visit("images", color_scheme=scheme)
    until(page, "app.covers.length > 0")
    page.locator(".thumb-button").first.wait_for()
    screenshot(page, f"images-{scheme}")
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == {"light": "rgb(247, 246, 243)", "dark": "rgb(21, 24, 27)"}[scheme]
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != colour


def test_thumbnails_are_those_of_the_data(visit: Open) -> None:
    page = visit("images")
    images = pages.with_images(3_000, 32, colour=True).images
    page.locator(".thumb-button").nth(7).click()
    page.locator(".thumb.large").wait_for()
    number = int(page.locator("#panel-content h2").inner_text())
    seen = page.evaluate(
        """async () => {
            const tile = await loadTile(contents.images, app.datum);
            const aside = new OffscreenCanvas(tile.width, tile.height).getContext("2d");
            aside.drawImage(tile.sheet, -tile.x, -tile.y);
            return Array.from(aside.getImageData(0, 0, tile.width, tile.height).data);
        }"""
    )
    mean = sum(seen[k] for k in range(len(seen)) if k % 4 != 3) / (len(seen) * 0.75)
    assert mean == pytest.approx(float(images[number].mean()), abs=6)


def test_a_phone_shows_the_tree_and_then_a_sheet(visit: Open) -> None:
    page = visit("animals", viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2)
    assert page.locator("#panel").is_hidden()
    screenshot(page, "phone")
    page.evaluate("fit(app.layout, CARD.readable)")
    click_card(page, 0)
    page.locator("#panel").wait_for()
    screenshot(page, "phone-node")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.locator("#panel-close").click()
    assert page.locator("#panel").is_hidden()
    page.locator("#outline-toggle").click()
    assert page.locator("#outline").is_visible()


def test_hostile_names_are_shown_as_text(visit: Open) -> None:
    page = visit("hostile", permissions=[])
    assert page.title() == pages.HOSTILE[1]
    assert page.locator("#title").inner_text() == pages.HOSTILE[1]
    for node in range(7):
        page.evaluate(f"selectNode({node})")
        page.locator("#panel-content").get_by_text("Data at this node").wait_for()
    page.locator(".text-button").first.click()
    page.get_by_text("Where it sits").wait_for()
    page.locator("#search").fill("alert(1)")
    page.locator("#results [role=option]").first.wait_for()
    found = page.locator("#results [role=option]").all_inner_texts()
    assert any("<img src=x onerror=alert(1)>" in text for text in found)
    page.locator("#results [role=option]").last.click()
    page.get_by_text("Where it sits").wait_for()
    assert page.locator("#panel-content h2").inner_text() in pages.HOSTILE
    assert page.locator("img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= DESKTOP["width"]
    screenshot(page, "hostile")


def test_five_thousand_nodes_are_there_within_a_second_and_zoom_smoothly(visit: Open) -> None:
    ready = []
    for _ in range(3):  # the machine may be busy with other tests
        page = visit("large")
        ready.append(page.evaluate("performance.getEntriesByName('ready')[0].startTime"))
    assert min(ready) < 1_000
    page.evaluate("setThreshold(0); fit(app.layout)")
    page.wait_for_timeout(500)
    assert page.evaluate("app.layout.cards.length") == 5_000
    screenshot(page, "large")
    assert min(page.evaluate(FRAMES) for _ in range(3)) < 50


def test_a_notebook_shows_the_same_page(visit: Open, tmp_path: Path) -> None:
    notebook = tmp_path / "notebook.html"
    frame = to_html(pages.animal_tree(0))
    notebook.write_text(f"<!doctype html><html data-ready><body>{frame}</body></html>")
    page = visit(notebook)
    inside = page.frame_locator("iframe")
    inside.locator("#outline [role=treeitem]").nth(6).wait_for()
    assert inside.locator(".tabs").is_hidden()
    assert inside.locator("#subtitle").inner_text() == "240 data, 7 nodes, depth 2."
    screenshot(page, "notebook")
