"""The page shows what its address says, however quickly that changes."""

from tests.browser.conftest import Pages
from tests.browser.recordings import training

MEANWHILE = """
const listen = window.addEventListener;
window.addEventListener = function (kind, ...how) {
    if (kind === "hashchange") {
        window.addEventListener = listen;
        history.replaceState(null, "", "#/kernels");
    }
    return listen.call(this, kind, ...how);
};
"""


def test_a_change_between_drawing_and_listening_is_followed(pages: Pages) -> None:
    opened = pages.open("report", "training", training())
    opened.page.add_init_script(MEANWHILE)
    opened.page.goto(opened.address)
    opened.page.wait_for_selector("main[data-shows='#/kernels']")


def test_what_a_view_writes_late_does_not_bring_it_back(pages: Pages) -> None:
    opened = pages.open("report", "training", training())
    page = opened.show("timeline")
    page.wait_for_selector(".timeline[data-complete=yes]")
    page.locator("canvas").press("w")
    page.evaluate("location.hash = '#/kernels'")
    page.wait_for_timeout(400)
    assert page.url.endswith("#/kernels")
    assert page.locator("main[data-shows='#/kernels']").count() == 1
