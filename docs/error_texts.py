"""What each error means and what to do: a paragraph for every slug in the source.

`unknown-*` in the source stands for the kinds of things that may be unknown.
"""

from __future__ import annotations

ERRORS: dict[str, str] = {
    "already-a-store": (
        "`stepscope import` was given a store. A store can be asked as it is; to make another one "
        "with other filters, import the original files again."
    ),
    "archive-damaged": (
        "The directory at the end of a zip archive cannot be read, mostly because the archive was "
        "copied in part: copy it again, or let `zip -FF` repair it. Or a member of a tar archive has "
        "more headers than a file needs: unpack it and give the files."
    ),
    "archive-encrypted": "A member of the archive needs a password. Unpack it and give the files.",
    "archive-method": (
        "A member of the archive is compressed in a way that StepScope does not know. Unpack it with "
        "the program that made it and give the files."
    ),
    "bad-chart-name": (
        "Charts are written as PNG or SVG, chosen by the name's ending: `-o timeline.svg`."
    ),
    "bad-gate": (
        "`--fail-if` takes a name, `>` or `<`, and a change with its sign, in per cent or as a time: "
        "`step_time > +3%`, `forward > +2ms`, `kernel:NAME < -5%`. The message says at which character "
        "it is not understood. See [diff](diff.md)."
    ),
    "bad-inline-profile": (
        "A file of inline measurements or phases is no whole JSON document. It was cut in "
        "copying or changed by hand; copy it again or record again."
    ),
    "bad-number-list": "Ranks and steps are written as numbers and ranges: `3`, `0,2-5`.",
    "bad-parameter": "A parameter of a question has a value of another type than it declares.",
    "bad-plan": "The plan of an inline measurement cannot be used; the message names the line.",
    "bad-ranks": (
        "Ranks are written as numbers and ranges, `0,8` or `0-3`, as `local:0` for one rank of every "
        "node, or as `all`."
    ),
    "bad-top": "`--top` takes a number of rows from 1. Leave it out to get all rows.",
    "cache-not-writable": (
        "The folder in which imported recordings are kept cannot be written. Set `STEPSCOPE_CACHE` "
        "to one that can, or use `--no-cache` to keep nothing."
    ),
    "cannot-write": (
        "The answer cannot be written to the file that was named: its folder is missing, may not be "
        "written, or is full. Nothing is left behind."
    ),
    "check-failed": (
        "`stepscope check` found a data-quality check of severity error, or a violated invariant of "
        "the tables. The exit code is 3, so that a script can stop. See [checks](checks.md)."
    ),
    "column-twice": "`--columns` names a column twice.",
    "damaged-source": (
        "`--strict` was given, and a file had to be mended, lost events, or ends too early. Without "
        "`--strict` everything that is intact is used, and the answers say what was lost."
    ),
    "database-damaged": (
        "A database of nvprof cannot be read: it was copied in part, or the profiler was killed while it "
        "wrote. Copy it again, or profile again."
    ),
    "directory": "A folder was given where one file is read.",
    "disk-full": (
        "The disk was full before the store was whole; what was written has been removed. Free some "
        "space, or choose another place with `-o` or `STEPSCOPE_CACHE`."
    ),
    "filter-on-store": (
        "A window of time and the leaving out of Python frames apply when files are read. A store "
        "has been read already: give the files, or import them again."
    ),
    "gate-failed": (
        "A change is beyond what `stepscope diff --fail-if` allows; the lines before it say by how much, "
        "and how sure that is. The exit code is 3, so that a script can stop. See [diff](diff.md)."
    ),
    "hardware-file": (
        "The file that describes devices and their limits cannot be used. It is TOML with "
        "`[[device]]` rows, like the one that StepScope brings along."
    ),
    "no-answer": (
        "`stepscope trigger` calls all ranks of a running job before it orders a step. Not all of them "
        "answered in time, or the step that was asked for would have been over before the order came. "
        "Nothing was recorded. The directory must be the one the job listens to, on a file system "
        "that all ranks see."
    ),
    "no-device": "The demo was asked to train on a device that torch does not see.",
    "no-inline-profile": (
        "There is no result of an inline measurement in what was given: a `.prof.json` file, or the "
        "directory that the measurement wrote to."
    ),
    "nothing-measured": (
        "A file of inline measurements or phases is whole and holds no measurement. The job ended within "
        "the first steps, which do not count; let it run longer."
    ),
    "no-data-frames": (
        "`to_pandas` and `to_polars` make data frames of a library that is not installed. StepScope itself "
        "needs neither: `rows()` gives dicts, and `arrow` an Arrow table."
    ),
    "no-iterations": (
        "`stepscope plan` ran a script that ended before an iteration of it could be watched. Iterations are "
        "found from the steps of an optimizer in the process itself, or from `inline.iterate` and "
        "`inline.iteration`: 6 are needed, 17 for everything. Processes that the script starts "
        "itself are not watched; `torchrun --no-python stepscope plan -- train.py` watches each rank."
    ),
    "no-matplotlib": (
        "Charts, and a roofline as PNG, are drawn by matplotlib: `pip install 'stepscope[plots]'`. A roofline "
        "as SVG needs nothing."
    ),
    "no-permission": "The file or folder may not be read by this user.",
    "no-recording": (
        "There is no recording in what was given. StepScope reads what `torch.profiler` exports "
        "(`.json`, `.json.gz`), databases of nvprof, what `stepscope record` writes, also in zip and tar "
        "archives, and folders of these."
    ),
    "no-model": (
        "`stepscope plan` takes a script, a recording, or a model as `train.py:Model` or "
        "`package.module:Model`, "
        "where `Model` is a module or makes one when it is called without arguments."
    ),
    "no-modules": (
        "`stepscope plan` was given a recording that names no modules of the model, or names them by their "
        "classes alone (`Linear_3`). `stepscope record --trace` keeps their paths; or name the script or the "
        "model itself."
    ),
    "no-runs": (
        "`scaling` compares several runs: one source for each number of processes, and as many names as "
        "sources where names are given. `diff` compares two, which `--names` names."
    ),
    "no-script": "The script to run under StepScope is missing, or none was given.",
    "script-failed": (
        "`stepscope plan` ran a script that raised or left with an exit code of its own before an iteration of "
        "it was watched. What it said is above the error; see first whether it runs alone."
    ),
    "no-such-file": "There is no file or folder of this name.",
    "no-example": (
        "`stepscope demo` records a script of the examples, which a wheel has in `stepscope/examples` "
        "and a checkout at its top. Neither was found."
    ),
    "no-torch": (
        "The demo and `stepscope calibrate` need torch, as recording does. Everything else works without it."
    ),
    "no-trace-written": "The demo's recordings could not be written.",
    "not-calibrated": (
        "`--limits measured` compares with what `stepscope calibrate` measured, and nothing was "
        "measured yet. Run it on the machine that the recording comes from; the file it names can be "
        "copied to another."
    ),
    "nothing-to-draw": (
        "No row of the roofline has operations, bytes and device time. The column `note` says why; "
        "mostly the recording was made without `record_shapes=True`."
    ),
    "not-a-file": "StepScope reads a file more than once, which a pipe or a device does not allow.",
    "not-a-store": (
        "A store is a directory with a `store.json`, made by `stepscope import SRC -o DIR`. A "
        "directory without it is none, or an import that did not finish."
    ),
    "not-a-trace": (
        "The file is no trace: an execution trace, an `.nsys-rep`, a picture, or JSON without "
        "`traceEvents`. The message says what it looks like."
    ),
    "not-recorded": (
        "Not every rank recorded the steps that `stepscope trigger` ordered; the message says why. A "
        "rank that was past the step already needs a longer `--lead`. Files that were written are "
        "listed."
    ),
    "not-writable": "The store cannot be written where it was asked for.",
    "output-exists": (
        "The output of an import exists and is no store. StepScope replaces only stores; give a "
        "directory that is empty or does not exist yet."
    ),
    "profiles-of-one-rank": (
        "Charts of a result of `parse_result` are about one run, in which each rank has one profile. "
        "Recordings of several runs in one folder have to be moved apart."
    ),
    "rank-of-many": "One rank was given for several recordings. It can be given for a single one.",
    "recorded-differently": (
        "`diff` was given two recordings that cannot be compared: one is a trace and the other has phases, "
        "say, or one has a device and the other has not, or what `--by` asks for is not in both. The message "
        "says what each has. Record both in the same way, or choose with `--by` something that both have."
    ),
    "source-unreadable": "The system failed to read the file: look at the disk it lies on.",
    "sql-error": "DuckDB cannot run the query; its reason follows. `stepscope schema` lists tables.",
    "sql-not-read-only": (
        "`stepscope sql` runs one statement that reads: SELECT, FROM, WITH, VALUES, DESCRIBE, "
        "SUMMARIZE, SHOW, or EXPLAIN of one. `PIVOT` needs its values listed with `IN (...)`."
    ),
    "stopped": "The import was stopped before it was whole. Nothing is left behind.",
    "store-damaged": (
        "A file of the store is missing or cut, or was taken away while the store was read. Ask the "
        "recording itself again: it is imported anew."
    ),
    "store-version": "The store was made by a StepScope with other tables. Make it anew.",
    "system": "The operating system refused something; its reason is in the message.",
    "two-ways-to-record": (
        "`stepscope record` records in one way at a time: a trace, a plan with `--inline`, `--phases`, or "
        "traces when `stepscope trigger` asks for them with `--on-demand`. Options such as `--active` and "
        "`--stack` are about traces, and with `--on-demand` they are the trigger's."
    ),
    "two-forms": "An answer has one form: `--json`, `--csv` or `--parquet FILE`.",
    "unknown-answer": (
        "The SQL reads `answer.NAME`, and there is no question of that name. `stepscope questions` "
        "lists them; `-` is written `_`, as in `answer.device_time`."
    ),
    "unknown-choice": "An option has a value that the question does not declare.",
    "unknown-column": (
        "The question has no such column, or not in the form that was asked for (`--by`). "
        "`stepscope questions` lists every column."
    ),
    "unknown-gate": (
        "A gate of `diff --fail-if` names something that neither recording has. A gate that nothing could "
        "break would pass for ever; the hint says what is called alike."
    ),
    "unknown-parameter": "The question has no such parameter.",
    "unknown-question": "There is no such question. `stepscope questions` lists them.",
    "unknown-rank": "The recording has no such rank. The message says which there are.",
    "unknown-rule": "`findings --id` names a rule that there is not; [findings](findings.md) has them.",
    "unknown-step": "The recording has no such step. The message says which there are.",
    "unknown-table": "There is no such table. `stepscope schema` lists them.",
    "worker-ended": (
        "A process that read a file ended before it was done, mostly because memory ran out. Import "
        "fewer ranks at once with `--ranks`."
    ),
}
