from __future__ import annotations


def test_each_file_says_what_became_of_its_events(diff):
    rows = {
        "rank": [
            {"rank": 0, "rank_rule": "distributedInfo"},
            {"rank": 1, "rank_rule": "file name"},
        ],
        "source": [
            {
                "rank": 1,
                "path": "b.json",
                "events_kept": 9,
                "events_dropped": 1,
                "truncated": True,
                "damage_offset": 77,
            },
            {"rank": 0, "path": "a.json", "events_kept": 5, "events_repaired": 2},
        ],
    }
    diff(
        "sources",
        rows,
        """
        path,rank,rank_rule,events_kept,events_repaired,events_dropped,truncated,damage_offset
        a.json,0,distributedInfo,5,2,0,False,
        b.json,1,file name,9,0,1,True,77
        """,
    )
