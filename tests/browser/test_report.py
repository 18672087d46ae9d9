"""The page in a browser, as a report and from a server: every view of every kind of recording, by eye of a machine."""

import base64
import json
import re
import zlib
from typing import Any

import pytest
from tests.browser.recordings import HOSTILE, LONG, training
from tests.serve.conftest import opened

from stepscope.base.units import count_text, time_text
from stepscope.serve import growing

AXE = "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"

AS_REPORT = pytest.mark.parametrize("show", ["report"], indirect=True)


def reply(data: dict[str, Any], question: str, **asked: str) -> dict[str, Any]:
    """What the block of a report holds."""
    key = json.dumps([["1"], question, sorted(asked.items())], separators=(",", ":"))
    packed: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(data["replies"][key])))
    return packed


@pytest.mark.parametrize("question", ["kernels", "steps", "operators", "idle"])
def test_the_numbers_are_those_of_the_answer(show: Any, question: str) -> None:
    report = show("training", training())
    page = report.show(question)
    answer = reply(report.data, question)["answer"]
    times = [c["name"] for c in answer["columns"] if c["unit"] == "ns" and not c["name"].startswith("start")]
    shown = page.locator("main .answer-table tbody").inner_text()
    heads = page.locator("main .answer-table thead").inner_text()
    for name in times:
        if name.removesuffix("_ns").replace("_", " ") not in heads.lower().split("\t"):
            continue
        for row in answer["rows"]:
            assert (time_text(row[name]) if row[name] is not None else "–") in shown, name
    assert f"{count_text(len(answer['rows']))} rows" in page.locator(".tools").inner_text()


def test_names_from_a_file_stay_text(show: Any) -> None:
    report = show("training", training())
    for view in ("kernels", "operators", "modules", "overview", "gpu-trace"):
        page = report.show(view)
        assert page.locator("main b:has-text('too'), main script").count() == 0
        assert HOSTILE in page.content().replace("&lt;", "<").replace("&gt;", ">")
    page = report.show("kernels")
    page.get_by_role("button", name="long_long").first.click()
    assert LONG in page.locator("tr.values").inner_text()


@AS_REPORT
def test_a_report_tells_no_path_and_no_host(show: Any) -> None:
    report = show("training", training())
    page = report.show("sources")
    assert "rank0.json" in page.locator("main").inner_text()
    plain = json.dumps([reply(report.data, "sources"), reply(report.data, "summary")])
    assert "/home/ann" not in plain
    assert "gpu-node7" not in plain


def test_rows_are_sorted_filtered_and_the_address_says_so(show: Any) -> None:
    page = show("training", training()).show("kernels")
    rows = page.locator(".answer-table tbody tr")
    before = rows.count()
    page.get_by_placeholder("filter").fill("émoji")
    assert rows.count() == 1 < before
    assert "find=" in page.url
    page.get_by_placeholder("filter").fill("")
    page.get_by_role("button", name="total", exact=True).click()
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("total")
    assert "sort=total_ns%3Adesc" in page.url
    page.reload()
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("total")
    page.locator("nav a", has_text="Steps").click()
    page.wait_for_selector("text=Where did the time")
    page.go_back()
    page.wait_for_selector("th[aria-sort=descending]")


def test_rows_are_grouped_and_taken_along(show: Any) -> None:
    report = show("training", training(), permissions=["clipboard-read", "clipboard-write"])
    page = report.show("gpu-trace")
    assert page.locator(".answer-table tbody tr").count() == 12
    page.get_by_label("group by").select_option("name")
    assert page.locator("tr.group").count() == 4
    page.locator("tr.group button").first.click()
    assert page.locator(".answer-table tbody tr").count() == 4 + 12 - 3
    page.get_by_placeholder("filter").fill("émoji")
    page.get_by_text("Copy", exact=True).click()
    page.get_by_role("button", name="as CSV").click()
    page.wait_for_selector("text=3 rows copied as CSV")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.count("\n") == 4
    assert "ops::\U0001f525émoji" in copied


def test_two_recordings_are_compared(show: Any) -> None:
    slower = training()
    for event in slower["device_event"]:
        event["dur_ns"] += 5_000
    report = show("pair", training(), slower)
    page = report.show("compare")
    assert page.locator("label:has-text('before') select").input_value() == "1"
    assert "Kernel" in page.locator(".changes").inner_text()
    page.get_by_text("tree", exact=True).click()
    page.wait_for_url(re.compile("by=tree"))
    page.wait_for_selector(".changes .bar-name[style*=padding]")
    words = report.show("measured").locator("main").inner_text()
    assert "How well does each part of the iteration scale" in words
    assert "not in this report." not in words  # asked of both, and not of the chosen one
    page = report.show("kernels")
    page.locator(".recording select").select_option("2")
    page.wait_for_url(re.compile("recording=2"))


def test_modules_are_walked_by_keyboard(show: Any) -> None:
    page = show("training", training()).show("modules")
    page.locator("canvas").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert "net" in page.locator(".flame-words").inner_text()
    page.keyboard.press("Enter")
    assert "module=net" in page.url
    page.keyboard.press("Escape")
    assert "module=" not in page.url


@pytest.mark.parametrize(("show", "scheme"), [("report", "light"), ("server", "dark")], indirect=["show"])
def test_no_serious_fault_of_accessibility(show: Any, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    report = show("training", training(), color_scheme=scheme)
    report.show("overview").evaluate(axe.axe_script)  # once, for all views
    for view, found in report.walk(report.views(), AXE).items():
        serious = [
            (view, one["id"], node["html"][:120], node["failureSummary"])
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"][:2]
        ]
        assert serious == []


@pytest.mark.parametrize(("show", "width"), [("report", 800), ("server", 1440)], indirect=["show"])
def test_nothing_is_wider_than_the_window(show: Any, width: int) -> None:
    report = show("training", training(), viewport={"width": width, "height": 900})
    look = "main => [document.documentElement.scrollWidth, main.scrollWidth - main.clientWidth]"
    for view, (wide, beyond) in report.walk(report.views(), look).items():
        assert (wide <= width, beyond <= 0) == (True, True), view


@pytest.mark.parametrize("show", ["server"], indirect=True)
def test_a_server_says_what_is_unknown(show: Any) -> None:
    page = show("training", training()).show("kernels?by=nonsense")
    words = page.locator("main").inner_text()
    assert "No choice 'nonsense' of --by." in words
    assert "There is: name, properties" in words


@pytest.mark.parametrize("show", ["server"], indirect=True)
def test_a_server_is_asked_with_any_parameter(show: Any) -> None:
    report = show("training", training())
    page = report.show("launches")
    (name, *_) = [one for one in page.locator(".typed input").all() if one.is_visible()]
    name.fill("1")
    name.press("Enter")
    page.wait_for_url(re.compile(r"\?"))
    page.wait_for_selector("main[aria-busy=false]")
    assert page.locator(".empty[role=alert]").count() == 0


@pytest.mark.parametrize("show", ["server"], indirect=True)
def test_sql_is_asked_with_the_schema_beside_it(show: Any) -> None:
    page = show("training", training()).show("sql")
    page.get_by_label("Search tables").fill("device_event")
    page.locator(".sql-schema").get_by_text("device_event", exact=True).click()
    assert "launch_id" in page.locator(".sql-schema").inner_text()
    field = page.get_by_label("SQL that only reads")
    field.fill("SELECT step, sum(dur_ns) AS total_ns FROM device_event GROUP BY step")
    page.get_by_role("button", name="Run").click()
    page.wait_for_selector("text=3 rows")
    assert "126.0 µs" in page.locator(".answer-table").inner_text()
    assert "sql=SELECT" in page.url
    field.fill("DELETE FROM step")
    field.press("Control+Enter")
    page.wait_for_selector("text=only reads; this is DELETE")


@pytest.mark.parametrize("show", ["server"], indirect=True)
def test_a_part_of_the_recording_is_asked_for(show: Any) -> None:
    page = show("training", training()).show("kernels")
    page.get_by_text("Part of the recording").click()
    page.locator(".parts").get_by_label("step").fill("2")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("step=2"))
    page.wait_for_selector("main[aria-busy=false]")
    count = page.locator("thead th").all_inner_texts().index("count")
    cells = page.locator(f".answer-table tbody tr td:nth-child({count + 1})")
    assert set(cells.all_inner_texts()) == {"1"}


def test_a_view_follows_a_job_and_keeps_its_place(browser: Any, served: Any, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(growing, "MIN_SECONDS", 0)
    file = tmp_path / "run"
    file.write_text("")
    server = served(opened(training()), follows=([file], lambda _: opened(training(len(file.read_text())))))
    page = browser.new_page(viewport={"width": 1000, "height": 200})
    page.goto(server.policy.link)
    page.goto(f"{page.url}#/gpu-trace?find=quoted")
    rows = page.locator(".answer-table tbody tr")
    page.wait_for_selector("text=3 of 12 rows")
    page.locator("main").evaluate("main => { main.scrollTop = 10; }")
    assert page.locator("main").evaluate("main => main.scrollTop") == 10
    page.evaluate("window.stays = true")
    file.write_text("two")
    page.wait_for_selector("text=9 of 36 rows")
    assert rows.count() == 9
    assert "find=quoted" in page.url
    assert page.locator("main").evaluate("main => main.scrollTop") == 10
    assert page.evaluate("window.stays")
    assert "last change" in page.locator(".following").inner_text()
    page.close()


@AS_REPORT
def test_what_is_unknown_is_said(show: Any) -> None:
    report = show("training", training())
    assert "There is no view nonsense" in report.show("nonsense").locator("main").inner_text()
    words = report.show("kernels?by=nonsense").locator("main").inner_text()
    assert re.search(r"not in this report.*stepscope kernels SRC --by nonsense", words, re.DOTALL)


def test_ranks_stand_side_by_side_and_on_a_map(show: Any) -> None:
    report = show("ranks", training(ranks=4))
    page = report.show("communication")
    assert page.locator(".columns-chart g").count() == 4
    page.locator(".columns-chart [role=img]").focus()
    page.keyboard.press("End")
    assert page.locator(".told").inner_text().startswith("rank 3: ")
    assert page.locator(".columns-chart g.at").count() == 1
    page = report.show("rank-overview?measure=idle")
    assert page.locator(".heat-map .cell").count() == 4 * 3
    page.locator(".walk [role=img]").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)  # the first goes to rank 0, step 1
    assert page.locator(".told").inner_text().startswith("rank 0, step 3: ")
    page.keyboard.press("Escape")
    assert page.locator(".told").inner_text() == ""
    page = report.show("steps?by=step")
    page.locator(".columns-chart [role=img]").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url("**/timeline?from=**")
