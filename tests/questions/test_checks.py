from stepscope.questions import affected

CHECKS = [
    {"check": "no_steps", "severity": "note", "count": 1, "affects": "steps", "explanation": "no"},
    {"check": "zero_ts", "severity": "ok", "count": 0, "explanation": "none"},
    {"check": "truncated", "severity": "error", "count": 7, "affects": "file", "explanation": "100% wrong"},
    {"check": "clock_skew", "severity": "warning", "rank": 1, "count": 2, "explanation": "b"},
    {"check": "clock_skew", "severity": "warning", "rank": 0, "count": 3, "explanation": "a"},
]


def test_severe_checks_come_first_and_passed_ones_are_left_out(diff):
    diff(
        "checks",
        {"data_check": CHECKS, "source": [{"events_read": 5}]},
        f"""
        severity,check,rank,span,count,explanation,affects
        error,truncated,0,0,7,100% wrong,all
        warning,clock_skew,0,0,3,a,
        warning,clock_skew,1,0,2,b,
        note,no_steps,0,0,1,no,"{affected("steps")}"
        ok,source,,,0,"1 file in order: 5 events kept, none repaired or dropped",
        """,
    )


def test_all_lists_what_is_in_order_too(diff):
    diff(
        "checks",
        {
            "data_check": CHECKS[1:2],
            "source": [
                {"rank": 0, "path": "rank 0.json", "events_read": 5},
                {"rank": 1, "path": "it's <b>\n.json", "events_read": 6},
            ],
        },
        """
        severity,check,rank,count,explanation,path
        ok,zero_ts,0,0,none,
        ok,source,0,0,rank 0.json: 5 events kept,rank 0.json
        ok,source,1,0,"it's <b>
        .json: 6 events kept","it's <b>
        .json"
        """,
        all=True,
    )


def test_a_damaged_file_says_what_became_of_its_events(diff):
    diff(
        "checks",
        {
            "source": [
                {"path": "good.json", "events_read": 10, "damage": "{}", "unknown_categories": "{}"},
                {
                    "path": "cut.json",
                    "span": 1,
                    "events_read": 9,
                    "events_repaired": 2,
                    "events_dropped": 1,
                    "truncated": True,
                    "damage": '{"cut_off": 1}',
                    "damage_offset": 512,
                },
                {"path": "new.json", "events_read": 4, "unknown_categories": '{"gpu_tea": 3}'},
                {"path": "mended.json", "events_read": 4, "events_repaired": 4},
            ]
        },
        """
        severity,check,span,count,explanation,events_read,events_repaired,events_dropped,damage_offset
        warning,source,1,3,"cut.json: 9 events kept, 2 of them repaired, 1 dropped; the file ends before its JSON does; damage {""cut_off"": 1} from byte 512",9,2,1,512
        note,source,0,4,"mended.json: 4 events kept, 4 of them repaired",4,4,0,
        note,source,0,0,"new.json: 4 events kept; unknown categories {""gpu_tea"": 3}",4,0,0,
        ok,source,,0,"1 file in order: 10 events kept, none repaired or dropped",10,0,0,
        """,
    )


def test_a_severity_nobody_knows_is_not_hidden(diff):
    diff(
        "checks",
        {"data_check": [*CHECKS, {"check": "odd", "severity": "fatal"}]},
        """
        severity,check
        fatal,odd
        error,truncated
        warning,clock_skew
        warning,clock_skew
        note,no_steps
        ok,source
        """,
    )
