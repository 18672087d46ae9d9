/** SQL over the tables, with the schema beside it. Needs a server, because a report has no tables. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Answered } from "../parts/answered";
import { AnswerTable } from "../parts/table";
import { NoAnswer, type Reply, type SchemaTable, type SqlSource } from "../source/source";
import { type Asked, useChange, usePage, useRecording, useWait } from "../state/page";
import { matcher } from "../table/rows";

const LISTED = ["kernel_metric", "stack_sample", "phase_step", "allocator_event", "memory_event"];

/** A first query, about the longest items of a recording. */
function example(holds: readonly string[]): string {
  const summed = ["device_event", "host_event"].find((one) => holds.includes(one));
  const listed = LISTED.find((one) => holds.includes(one)) ?? "source";
  if (summed === undefined) return `SELECT * FROM ${listed} LIMIT 100`;
  return `SELECT name, count(*) AS calls, sum(dur_ns) AS total_ns\nFROM ${summed}\nGROUP BY name ORDER BY total_ns DESC`;
}

export function SqlView() {
  const { source } = usePage();
  return (
    <>
      <header class="view-head">
        <h1>What do the tables say?</h1>
      </header>
      {source.sql === null ? (
        <div class="empty" role="status">
          <p>A report holds answers and no tables, so that SQL has nothing to read here.</p>
          <p class="muted">
            With the recording: <code>stepscope view SRC</code>, or{" "}
            <code>stepscope sql SRC "SELECT ..."</code>
          </p>
        </div>
      ) : (
        <Asking sql={source.sql} />
      )}
    </>
  );
}

type Outcome = Asked<Reply> | { readonly state: "none" };

function Asking({ sql }: { readonly sql: SqlSource }) {
  const { address } = usePage();
  const change = useChange();
  const { id: recording, holds } = useRecording();
  const asked = address.state.get("sql") ?? "";
  const [typed, setTyped] = useState(asked === "" ? example(holds) : asked);
  const [turn, setTurn] = useState(0);
  const [outcome, setOutcome] = useState<Outcome>({ state: asked === "" ? "none" : "waiting" });
  useWait(outcome.state === "waiting");
  const running = useRef<AbortController | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (asked === "") return undefined;
    setTyped(asked);
    const ends = new AbortController();
    running.current = ends;
    setOutcome({ state: "waiting" });
    sql.ask(recording, asked, ends.signal).then(
      (value) => setOutcome({ state: "answered", value }),
      (reason: unknown) =>
        setOutcome({
          state: "failed",
          error: reason instanceof NoAnswer ? reason : new NoAnswer(String(reason)),
        }),
    );
    return () => ends.abort();
  }, [sql, recording, asked, turn]);
  const run = () => {
    change({ sql: typed, sort: null, find: null, columns: null, group: null, page: null });
    setTurn(turn + 1);
  };
  const insert = (text: string) => {
    const at = field.current;
    if (at === null) return;
    at.setRangeText(text, at.selectionStart, at.selectionEnd, "end");
    setTyped(at.value);
    at.focus();
  };
  return (
    <div class="sql">
      <div class="sql-asking">
        <label>
          <span class="hidden">SQL that only reads</span>
          <textarea
            ref={field}
            rows={8}
            spellcheck={false}
            value={typed}
            onInput={(event) => setTyped(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
            }}
          />
        </label>
        <div class="tools">
          <button type="button" onClick={run}>
            Run
          </button>
          {outcome.state === "waiting" && (
            <button type="button" onClick={() => running.current?.abort()}>
              Stop
            </button>
          )}
          <span class="muted">
            Ctrl+Enter runs it. It may only read, and is stopped after the server's time limit.
          </span>
        </div>
        {outcome.state !== "none" && (
          <Answered asked={outcome}>
            {(reply) => (
              <AnswerTable key={reply.answer.columns.map((one) => one.name).join()} reply={reply} />
            )}
          </Answered>
        )}
      </div>
      <Schema sql={sql} insert={insert} />
    </div>
  );
}

function Schema({ sql, insert }: { readonly sql: SqlSource; readonly insert: (text: string) => void }) {
  const { declarations } = usePage();
  const [tables, setTables] = useState<readonly SchemaTable[]>([]);
  const [typed, setTyped] = useState("");
  useEffect(() => {
    sql.schema().then(setTables, () => setTables([]));
  }, [sql]);
  const answers = declarations
    .filter((one) => one.recordings === "one")
    .map((one) => ({
      name: `answer.${one.name.replaceAll("-", "_")}`,
      meaning: one.asks,
      columns: one.columns,
    }));
  const matches = matcher(typed) ?? (() => true);
  const found = [...tables, ...answers].filter((one) =>
    [one.name, ...one.columns.map((column) => column.name)].some(matches),
  );
  return (
    <section class="sql-schema" aria-label="Tables">
      <input
        type="search"
        aria-label="Search tables and columns"
        placeholder="search tables and columns"
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
      <ul>
        {found.map((one) => (
          <li key={one.name}>
            <details>
              <summary title={one.meaning}>
                <code>{one.name}</code>
              </summary>
              <p class="muted small">{one.meaning}</p>
              <ul class="small">
                {one.columns.map((column) => (
                  <li key={column.name} title={column.meaning}>
                    <button type="button" class="plain-button" onClick={() => insert(column.name)}>
                      <code>{column.name}</code>
                    </button>{" "}
                    <span class="muted">
                      {column.type}. {column.meaning}
                    </span>
                  </li>
                ))}
              </ul>
              <button
                type="button"
                class="small"
                onClick={() => insert(`SELECT * FROM ${one.name} LIMIT 100`)}
              >
                Select from it
              </button>
            </details>
          </li>
        ))}
      </ul>
    </section>
  );
}
