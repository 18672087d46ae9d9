"""What single views do when someone uses them, by mouse and by keyboard."""

import re
from typing import Any

import pytest
from tests.browser.recordings import LONG, allocating, collectives, on_cpu, timed_by_itself, training

FOCUSED = """() => {
    const shown = [...document.querySelectorAll(
        'a[href], button, input, select, textarea, summary, [tabindex="0"]')]
        .filter((one) => one.checkVisibility() && !one.disabled);
    const ringed = (one) => one && getComputedStyle(one).outlineStyle !== 'none'
        && parseFloat(getComputedStyle(one).outlineWidth) >= 1;
    return shown.flatMap((one) => {
        one.focus();
        const name = one.outerHTML.slice(0, 160);
        if (document.activeElement !== one) return ['is not reached: ' + name];
        if (one.tabIndex !== 0) return ['is not in the order: ' + name];
        return ringed(one) || ringed(one.nextElementSibling) ? [] : ['shows no focus: ' + name];
    });
}"""


def test_every_control_of_every_view_is_reached_and_shows_its_focus(show: Any) -> None:
    report = show("training", training())
    for view in report.views():
        page = report.show(view)
        page.evaluate("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
        page.keyboard.press("Tab")  # from here on focus is that of a keyboard
        assert page.evaluate(FOCUSED) == [], view


@pytest.mark.parametrize("show", ["server"], indirect=True)
def test_the_overview_asks_only_for_what_it_shows(show: Any) -> None:
    page = show("training", training()).show("overview")
    asked = (
        "() => performance.getEntriesByType('resource').flatMap((one) => /answers.([^?]*)/.exec(one.name)?.[1] ?? [])"
    )
    page.wait_for_function(f"() => ({asked})().length >= 3")  # what was answered has an entry
    assert set(page.evaluate(asked)) == {"summary", "steps", "kernels"}


def test_what_is_alive_at_a_moment_and_in_a_stretch_is_listed(show: Any) -> None:
    report = show("allocating", allocating())
    page = report.show("memory")
    plot = page.locator("main .uplot-place")
    plot.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert "130 B" in page.locator(".u-legend").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_selector("text=the rows below are of what is alive then")
    page.wait_for_selector("main[aria-busy=false]")
    rows = page.locator(".answer-table tbody tr")
    assert rows.count() == 2
    assert "by=allocation" in page.url
    plot.press("Escape")
    page.wait_for_selector("text=The dotted line is the peak")
    if report.address.startswith("file:"):
        assert "What lives in a stretch: stepscope view SRC" in page.locator("main").inner_text()
        return
    box = plot.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.03, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20, steps=3)
    page.mouse.up()
    page.wait_for_url(re.compile("window="))
    page.wait_for_selector("text=peak of this stretch")
    page.wait_for_selector("main[aria-busy=false]")
    assert rows.count() == 2
    page.goto(re.sub("window=[^&]*", "window=700ns:900ns", page.url))
    page.wait_for_selector("text=No curve of this stretch. No event or sample lies in 700 ns to 900 ns")
    assert page.get_by_role("button", name="Show all, at the peak").is_visible()


def test_the_bandwidth_of_collectives_is_drawn_over_their_size(show: Any) -> None:
    report = show("collectives", collectives())
    card = report.show("communication?question=communication").locator(".card", has_text="Bus")
    assert "lower bounds" not in card.inner_text()
    assert "all_reduce" in card.locator(".bars").inner_text()
    page = report.show("communication?question=communication&by=size")
    plot = page.locator(".card", has_text="Bus").locator(".uplot-place")
    plot.focus()
    page.keyboard.press("End")
    assert "62.50 KiB" in plot.inner_text()
    assert "32.00 GB/s" in plot.inner_text()


@pytest.mark.parametrize("show", ["server"], indirect=True)
def test_what_a_view_asks_ends_when_it_is_left(show: Any) -> None:
    report = show("training", training())
    page = report.show("overview")
    ended: list[str] = []
    page.on("requestfailed", lambda one: ended.append(one.url))
    for view, asks in (
        ("operators", "api/answers/operators"),
        ("timeline", "api/timeline/layout"),
        ("timeline", "api/timeline/tile"),
    ):
        page.route(f"**/{asks}?*", lambda _: None)  # it never answers
        with page.expect_request(f"**/{asks}?*"):
            page.evaluate(f"location.hash = '#/{view}'")
        page.evaluate("location.hash = '#/steps'")
        page.wait_for_selector("main[data-shows='#/steps'][aria-busy=false]")
        assert [url for url in ended if asks in url], asks
        page.unroute(f"**/{asks}?*")
    assert "Stopped" not in page.locator("main").inner_text()


@pytest.mark.parametrize("show", ["server"], indirect=True)
def test_what_a_lost_server_did_not_answer_is_asked_again_when_it_is_back(show: Any) -> None:
    report = show("training", training())
    page = report.show("overview")
    for view, answered in (("steps", ".answer-table"), ("timeline", ".timeline[data-complete=yes]")):
        for comes_back in ("by itself", "when asked"):
            page.route("**/api/**", lambda one: one.abort())
            page.evaluate("location.hash = '#/findings'")
            page.evaluate(f"location.hash = '#/{view}'")
            lost = page.locator("main").get_by_text("The server does not answer.")
            lost.wait_for()
            if comes_back == "when asked":
                page.unroute("**/api/**")
                page.route("**/api/state", lambda one: one.abort())  # nothing tells that it is back
                page.get_by_role("button", name="Try again").click()
            else:
                page.unroute("**/api/**")
            page.wait_for_selector(f"main[data-shows='#/{view}'] {answered}")
            assert lost.count() == 0
            page.unroute("**/api/state")
    assert {line for line in report.console if "net::ERR_FAILED" not in line} == set()
    report.console.clear()


def test_names_under_columns_are_complete_however_wide_the_page_is(show: Any) -> None:
    page = show("ranks", training(ranks=4)).show("overview")
    names = page.locator(".columns-chart .names span")
    names.first.wait_for()
    for width in (1440, 900, 400):
        page.set_viewport_size({"width": width, "height": 900})
        cut = "all => all.filter((one) => one.scrollWidth > one.clientWidth).length"
        for _ in range(100):
            page.wait_for_timeout(50)
            if (cut_names := names.evaluate_all(cut)) == 0:
                break
        assert cut_names == 0, width


def test_what_is_drawn_to_the_width_follows_a_window_that_becomes_narrow(show: Any) -> None:
    report = show("training", training())
    for view in ("modules", "findings", "timeline"):
        report.page.set_viewport_size({"width": 1280, "height": 800})
        page = report.show(view)
        page.wait_for_function("() => [...document.querySelectorAll('canvas')].every((one) => one.clientWidth > 400)")
        page.set_viewport_size({"width": 400, "height": 800})
        page.wait_for_function("() => document.querySelector('main').scrollWidth <= innerWidth", timeout=4000)
    assert page.locator("canvas").evaluate("one => one.clientWidth") > 200


def test_steps_of_a_job_that_timed_itself_lead_to_its_phases(show: Any) -> None:
    page = show("timed by itself", timed_by_itself()).show("overview")
    for link in ("Mean step", "4 (their phases timed by the job itself)"):
        href = page.locator("main").get_by_role("link", name=link).get_attribute("href")
        assert href == "#/measured?question=phases", link


def test_an_open_row_shows_how_its_single_calls_are_spread(show: Any) -> None:
    rows = training()
    slow = next(one for one in rows["device_event"] if one["name"] == "ops::\U0001f525émoji")
    slow["dur_ns"] = 400_000
    page = show("a slow kernel", rows).show("kernels")
    page.locator(".open-row", has_text="émoji").click()
    chart = page.locator("tr.values .histogram")
    chart.wait_for()
    assert "3 runs by duration; the line is this row's mean, 154.7 µs" in chart.inner_text()
    titles = chart.locator("title").all_text_contents()
    assert [re.search(r": (\d+) \((.*)\)", one).groups() for one in titles] == [("2", "66.7 %"), ("1", "33.3 %")]
    chart.locator(".walk [tabindex]").focus()
    page.keyboard.press("End")
    assert "the longest, 400.0 µs: on the timeline" in chart.locator(".told").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("#/timeline"))
    start = slow["start_ns"]
    assert f"from={start - 20_000}&to={start + 420_000}" in page.url


def test_a_row_that_ran_once_has_no_histogram(show: Any) -> None:
    page = show("cpu", on_cpu()).show("operators")
    page.locator(".open-row").first.click()
    page.locator("tr.values dl").wait_for()
    page.wait_for_selector("main[aria-busy=false]")
    assert page.locator(".histogram, tr.values .note").count() == 0


@pytest.mark.parametrize("show", ["report"], indirect=True)
def test_a_tree_of_modules_fits_a_narrow_window_whatever_the_names(show: Any) -> None:
    rows = training()
    names = ("bert.encoder.layer." * 9, LONG)
    for module, name in zip(rows["module"][1:], names, strict=True):
        module |= {"name": name, "class": "BertPredictionHeadTransform"}
    page = show("long names", rows, viewport={"width": 1280, "height": 800}).show("modules")
    table = page.locator("section.scroll")
    assert table.evaluate("one => one.scrollWidth - one.clientWidth") == 0


def test_a_column_of_several_steps_says_how_many_and_shows_the_slowest(show: Any) -> None:
    long = {700: 900_000}
    steps = [{"step": n, "start_ns": 10**6 * n, "end_ns": 10**6 * n + long.get(n, 500_000)} for n in range(1200)]
    page = show("many steps", {"step": steps}).show("overview")
    assert "Each column is the slowest of 3 steps in a row." in page.locator("main").inner_text()
    titles = page.locator(".columns-chart title")
    assert titles.count() == 400
    slow = titles.nth(233).text_content()
    assert slow.startswith("step 700: 900.0 µs")
    assert slow.endswith("the slowest of 3, step 699 to step 701")


def test_a_menu_fits_a_narrow_window(show: Any) -> None:
    report = show("training", training())
    report.page.set_viewport_size({"width": 400, "height": 800})
    menus = report.show("kernels").locator(".menu")
    for place in range(menus.count()):
        menus.nth(place).locator("summary").click()
        box = menus.nth(place).locator("> :last-child").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 400
        menus.nth(place).locator("summary").click()
