"""Sums stay whole where a query sorts by them after it joined an empty table."""

from tests.literal import literal_store


def test_a_sum_beside_an_empty_table_keeps_its_upper_bytes() -> None:
    rows = {"device_event": [{"name": "filler"}] * 60 + [{"name": "kernel", "dur_ns": 600_000}]}
    query = """
        SELECT work.name, operator.name AS operator, sum(dur_ns)::BIGINT AS total_ns
        FROM device_event AS work
        LEFT JOIN (SELECT rank, id, name FROM host_event WHERE kind = 'operator') AS operator
            ON operator.rank = work.rank AND operator.id = work.operator_id
        GROUP BY ALL ORDER BY total_ns DESC
    """
    with literal_store(rows) as store:
        assert store.sql(query).column("total_ns").to_pylist() == [600_000, 0]
