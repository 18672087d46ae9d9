"""What the server answers about the timeline, over a real socket: the numbers are those of SQL."""

import pytest
from tests.serve.test_refusals import refused


def asked(server, what, **more):
    query = "&".join(f"{name}={value}" for name, value in more.items())
    reply = server.ask(f"/api/timeline/{what}?{query}")
    assert reply.status == 200, reply.json
    return reply.json


def test_tiles_and_sums_are_those_of_sql(server):
    (rank,) = asked(server, "layout")["ranks"]
    stream = next(one for one in rank["tracks"] if one["kind"] == "stream")
    text = "SELECT count(*) AS n, sum(dur_ns)::BIGINT AS ns FROM device_event"
    (row,) = server.sql(text).json["answer"]["rows"]
    drawn = asked(server, "tile", level=30, index=0, tracks=stream["id"])["tracks"][stream["id"]]
    assert (sum(drawn["count"]), sum(drawn["busy"])) == (row["n"], row["ns"])
    measured = asked(server, "range", start=1_000_000, end=2_000_000, tracks=stream["id"])["rows"]
    text = (
        "SELECT name, count(*) AS n, sum(dur_ns)::BIGINT AS ns FROM device_event WHERE start_ns < 2000000 GROUP BY name"
    )
    expected = server.sql(text).json["answer"]["rows"]
    assert {(one["count"], one["total_ns"]) for one in measured} == {(one["n"], one["ns"]) for one in expected}
    slower = asked(server, "tile", recording=2, level=30, index=0, tracks=stream["id"])["tracks"][stream["id"]]
    assert sum(slower["busy"]) == row["ns"] + 5_000 * row["n"]


def test_what_is_found_can_be_asked_about(server):
    found = asked(server, "find", name="*moji")
    assert found["total"] == 6
    place = found["place"]
    told = asked(server, "event", track=place["track"], id=place["id"])
    assert told["place"]["name"] == told["name"] == "ops::\U0001f525émoji"
    assert told["links"][0]["relation"] == "launched"


@pytest.mark.parametrize(
    "what",
    [
        "nothing", "tile", "tile?level=1&index=0", "tile?level=x&index=0&tracks=0.s0.-1", "event?track=0.h0",
        "tile?level=99&index=0&tracks=0.h0", "tile?level=1&index=0&tracks=0.h99", "find?name=/(/",
        "range?start=5&end=1&tracks=0.h0", "layout?recording=9", "tile?level=1&index=" + "9" * 400 + "&tracks=0.h0",
        "event?track=0.h0&id=123456789",
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused_in_the_one_shape(server, what):
    refused(server.ask(f"/api/timeline/{what}"), 400, server.ask(f"/api/timeline/{what}").json["slug"])


def test_it_asks_for_the_token_and_an_own_page(server):
    refused(server.ask("/api/timeline/layout", authorization=None), 401, "no-token")
    refused(server.ask("/api/timeline/layout", origin="https://evil.example"), 403, "foreign-origin")
    refused(server.ask("/api/timeline/layout", host="evil.example"), 421, "foreign-host")
