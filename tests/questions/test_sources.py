def test_each_file_says_what_became_of_its_events(diff):
    rows = {
        "rank": [{"rank": 0, "rank_rule": "distributedInfo"}, {"rank": 1, "rank_rule": "file name"}],
        "source": [
            {
                "rank": 1,
                "path": "b.json",
                "events_read": 9,
                "events_dropped": 1,
                "truncated": True,
                "damage_offset": 77,
            },
            {"rank": 0, "path": "a.json", "events_read": 5, "events_repaired": 2},
        ],
    }
    diff(
        "sources",
        rows,
        """
        path,rank,rank_rule,events_read,events_repaired,events_dropped,truncated,damage_offset
        a.json,0,distributedInfo,5,2,0,False,
        b.json,1,file name,9,0,1,True,77
        """,
    )


def test_files_of_several_hosts_say_how_their_clocks_were_aligned(diff):
    clock = {"clock_uncertainty_ns": 40, "clock_matches": 8}
    rows = {
        "rank": [
            {"rank": 0, "clock_rule": "same host", "clock_offset_ns": 0, **clock},
            {"rank": 1, "clock_rule": "collectives", "clock_offset_ns": -9_000, "clock_drift_ppb": 5.0, **clock},
        ],
        "source": [
            {"rank": 0, "path": "a.json"},
            {"rank": 1, "path": "b.json"},
            {"rank": 1, "path": "c.json", "span": 1, "drift_ns": -30},
        ],
    }  # fmt: skip
    diff(
        "sources",
        rows,
        """
        path,clock_rule,clock_offset_ns,clock_drift_ppb,clock_uncertainty_ns,clock_matches
        a.json,same host,0,,40,8
        b.json,collectives,-9000,5.0,40,8
        c.json,collectives,-9030,5.0,40,8
        """,
    )
