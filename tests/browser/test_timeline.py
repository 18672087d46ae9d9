"""The timeline in a browser, as a report and from a server: by keyboard, pointer and link."""

import re
from typing import Any

import pytest
from tests.browser.recordings import HOSTILE, LONG, timed_by_itself, training


def opened(show: Any, kind: str, rows: dict[str, Any], hash_: str = "timeline", **looks: Any) -> Any:
    opened = show(kind, rows, **looks)
    page = opened.page
    page.goto(f"{opened.address}#/{hash_}")  # whose hash changes as soon as something was found
    page.wait_for_selector(".timeline[data-complete=yes]")
    return page


def chosen(page: Any, name: str) -> Any:
    page.wait_for_function(
        "name => document.querySelector('.event-panel h2')?.textContent === name"
        " && document.querySelector('.event-panel dl.fields')",
        arg=name,
    )
    return page.locator(".event-panel")


def test_keys_walk_over_events_and_tell_of_them(show: Any) -> None:
    page = opened(show, "training", training())
    assert page.evaluate("document.activeElement.tagName") == "CANVAS"
    keys = page.get_by_text("show these keys")
    page.keyboard.press("?")
    assert keys.is_visible()
    page.keyboard.press("?")
    assert not keys.is_visible()
    for _ in range(2):  # from the steps to the stream
        page.keyboard.press("ArrowDown")
    text = chosen(page, LONG).inner_text()
    assert "computation" in text
    assert "launched by" in text
    page.keyboard.press("ArrowLeft")
    chosen(page, "ops::\U0001f525émoji")
    page.keyboard.press("ArrowLeft")
    text = chosen(page, "aten::mm \"quoted\" 'too' <b>&amp;").inner_text()
    assert "backward" in text
    page.keyboard.press("m")
    page.wait_for_selector("text=share of the range")
    page.keyboard.press("p")
    page.wait_for_selector(".track-title .pin[aria-pressed=true]")
    page.wait_for_url(re.compile("(?=.*pins=)(?=.*measure=)"))
    page.keyboard.press("Escape")
    assert page.locator(".event-panel").count() == 0
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"


def test_a_link_shows_what_its_sender_saw(show: Any) -> None:
    page = opened(show, "training", training())
    page.get_by_placeholder("search").fill("émoji")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=/^1 of 6$/")
    page.get_by_role("button", name="Next").click()
    page.wait_for_selector("text=/^2 of 6$/")
    chosen(page, "ops::\U0001f525émoji")
    page.get_by_role("button", name="Zoom to selection").click()
    page.wait_for_url("**from=1156800&to=1195200&at=0.s0.0**")
    page.reload()
    assert "32.00 µs" in chosen(page, "ops::\U0001f525émoji").inner_text()
    page.wait_for_selector("text=/^2 of 6$/")
    page.locator(".related button").first.click()
    page.wait_for_url("**at=0.h0**")


def test_a_range_is_measured_with_the_pointer(show: Any) -> None:
    page = opened(show, "training", training())
    box = page.locator("canvas").bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 5, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + 150, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    table = page.locator("section[aria-label='The measured range'] table")
    table.wait_for()
    rows = table.locator("tbody tr", has_text=HOSTILE).all_inner_texts()
    assert [row.split("\t")[2:4] for row in rows] == [["3", "120.0 µs"], ["3", "90.00 µs"]]
    page.get_by_role("button", name="All").click()
    before = page.url
    page.keyboard.press("f")  # the buttons leave the keys to the timeline, and what is measured is zoomed to
    page.wait_for_function("before => location.href !== before", arg=before)


def test_names_of_a_file_stay_text_of_any_length(show: Any) -> None:
    page = opened(show, "training", training(), "timeline?find=long_")
    chosen(page, LONG)
    assert page.locator("main script, main b:has-text('too')").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_canvas_shows_the_colours_of_the_step(show: Any, scheme: str) -> None:
    page = opened(show, "ranks", training(ranks=4), color_scheme=scheme)
    colours = page.evaluate("""() => {
        const canvas = document.querySelector('canvas');
        const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        const seen = new Set();
        for (let at = 0; at < pixels.length; at += 4)
            seen.add('#' + [0, 1, 2].map((n) => pixels[at + n].toString(16).padStart(2, '0')).join(''));
        return [...seen];
    }""")
    assert len(colours) > 6
    kernel, card = page.evaluate(
        "['--kernel', '--card'].map((one) => getComputedStyle(document.documentElement).getPropertyValue(one))"
    )
    assert {kernel.strip(), card.strip().replace("#fff", "#ffffff", 1)[:7]} & set(colours)
    page.get_by_role("button", name="rank 2").click()
    page.wait_for_url("**turned=rank+2")


def test_a_rank_of_many_is_chosen_and_open(show: Any) -> None:
    page = opened(show, "ranks", training(ranks=4))
    page.locator(".track-title.rank [aria-expanded=false]", has_text="rank 3").wait_for()
    page.get_by_label("Go to a rank").select_option("3")
    page.locator(".track-title.rank [aria-expanded=true]", has_text="rank 3").wait_for()
    page.wait_for_url("**turned=rank+3")


@pytest.mark.parametrize("show", ["report"], indirect=True)
def test_of_curves_alone_it_says_what_they_are(show: Any) -> None:
    report = show("timed by itself", timed_by_itself())
    report.page.add_init_script("""
        const write = CanvasRenderingContext2D.prototype.fillText;
        window.written = new Set();
        CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
            window.written.add(text);
            return write.call(this, text, ...where);
        };""")
    page = report.show("timeline")
    page.wait_for_function("() => window.written.has('2.000 kB/s')")
    words = page.locator("main").inner_text()
    assert "Values over time" in words
    assert "computation on a device" not in words


def test_other_views_lead_to_it(show: Any) -> None:
    opened = show("training", training())
    page = opened.show("kernels")
    page.get_by_role("button", name="émoji").click()
    page.get_by_role("link", name="Show on the timeline").click()
    chosen(page, "ops::\U0001f525émoji")
    page = opened.show("steps?by=step")
    page.locator(".open-row").nth(1).click()
    page.get_by_role("link", name="Show on the timeline").click()
    page.wait_for_url("**/timeline?from=1955000&to=2945000&rank=0")
    page.wait_for_selector(".timeline[data-complete=yes]")
