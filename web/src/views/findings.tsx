/** Findings: each with its saving, what to do, and the rows and query behind it. */

import { numberText, ratioText, timeText, valueText } from "../format/units";
import { Answered } from "../parts/answered";
import { Plain, Words } from "../parts/words";
import type { RowOf, Value } from "../source/source";
import { commandLink } from "../state/command";
import { useAnswer, useChange, useLink, usePage } from "../state/page";
import { spotState } from "../timeline/address";
import { QuestionHead, useParameters } from "./generic";

type Finding = RowOf<"findings">;

export function FindingsView() {
  const asked = useAnswer("findings", useParameters("findings"));
  const { address } = usePage();
  const change = useChange();
  const wanted = address.state.get("find");
  return (
    <>
      <QuestionHead question="findings" />
      <Answered asked={asked}>
        {(reply) => {
          const rows = reply.answer.rows;
          const found = wanted === undefined ? rows : rows.filter((row) => row.id === wanted);
          const shown = found.length > 0 ? found : rows;
          return (
            <>
              {shown.length < rows.length && (
                <p class="note">
                  Only {wanted}.{" "}
                  <button type="button" onClick={() => change({ find: null })}>
                    Show all {rows.length}
                  </button>
                </p>
              )}
              <ol class="findings">
                {shown.map((row, place) => (
                  <li key={`${row.id} ${row.rank} ${row.step} ${place}`}>
                    <FindingCard finding={row} open={shown.length === 1} />
                  </li>
                ))}
              </ol>
            </>
          );
        }}
      </Answered>
    </>
  );
}

function FindingCard({ finding, open }: { readonly finding: Finding; readonly open: boolean }) {
  const severity = finding.severity ?? "note";
  return (
    <article class={`card finding edge-${severity}`}>
      <h2>
        <span class={`severity ${severity}`}>{severity}</span> <Plain text={finding.title ?? ""} />
      </h2>
      <p>{savingWords(finding)}</p>
      {finding.advice && (
        <p>
          <b>Next:</b> <Words text={finding.advice} />
        </p>
      )}
      {finding.trade_off && finding.saving_high_ns !== null && (
        <p class="muted">
          <b>Trade-off:</b> <Words text={finding.trade_off} />
        </p>
      )}
      {finding.failing_checks && <p class="severe">⚠ Read with care: {finding.failing_checks}</p>}
      <details open={open}>
        <summary>Evidence</summary>
        <Evidence finding={finding} />
      </details>
    </article>
  );
}

function savingWords(finding: Finding): string {
  const sure = `Confidence in the cause: ${finding.confidence}. Rule: ${finding.id}.`;
  const high = finding.saving_high_ns;
  if (high === null || high === undefined) return sure;
  const low = finding.saving_low_ns ?? 0;
  const bounds = low > 0 ? `${timeText(low)} to ${timeText(high)}` : `at most ${timeText(high)}`;
  const share = ratioText(finding.saving_share_ratio ?? 0);
  const job = finding.saving_job_ns ?? 0;
  const own = job > high ? " of a rank's own time" : "";
  return `A cure saves ${bounds} a ${finding.per}${own} (${low > 0 ? "at most " : ""}${share}). ${sure}`;
}

function Evidence({ finding }: { readonly finding: Finding }) {
  const link = useLink();
  const rows = evidenceRows(finding.evidence ?? "");
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const spot = spotState({
    from: finding.window_start_ns,
    to: finding.window_end_ns,
    rank: finding.rank,
    name: rows.map((row) => row.kernel ?? row.operator ?? row.range).find((one) => typeof one === "string"),
  });
  const { source } = usePage();
  const query = finding.query ?? "";
  const asked = commandLink(query);
  const again =
    asked !== null
      ? link(asked.question, asked.question === "findings" ? { find: finding.id ?? "" } : asked.state)
      : source.sql === null
        ? null
        : link("sql", { sql: query });
  return (
    <>
      <p>
        {finding.metric}: <b>{numberText(finding.value ?? 0, finding.unit ?? "")}</b>
        {finding.rank !== null && finding.rank !== undefined && <>, rank {finding.rank}</>}
        {finding.step !== null && finding.step !== undefined && <>, step {finding.step}</>}
        {finding.window_start_ns !== null && finding.window_start_ns !== undefined && (
          <span class="muted">
            {" "}
            between {valueText(finding.window_start_ns, { unit: "ns", moment: true })} and{" "}
            {valueText(finding.window_end_ns, { unit: "ns", moment: true })}
          </span>
        )}
        {Object.keys(spot).length > 0 && (
          <>
            {" "}
            <a href={link("timeline", spot)}>Show on the timeline</a>
          </>
        )}
      </p>
      {rows.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        <section class="scroll" tabIndex={0} aria-label={`Evidence of ${finding.id}`}>
          <table>
            <thead>
              <tr>
                {names.map((name) => (
                  <th key={name} scope="col">
                    {name.replace(/_(ns|bytes|ratio)$/, "").replaceAll("_", " ")}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={JSON.stringify(row)}>
                  {names.map((name) => (
                    <td key={name} class={typeof row[name] === "number" ? "number" : ""}>
                      <Led name={name} row={row} />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
      {query !== "" && asked !== null && (
        <p>
          The number again:{" "}
          <a href={again ?? ""}>
            <code>{query}</code>
          </a>
        </p>
      )}
      {query !== "" && asked === null && (
        <details>
          <summary>The number again, by SQL</summary>
          {again !== null && <a href={again}>Run it</a>}
          <p>
            <code>{query}</code>
          </p>
        </details>
      )}
    </>
  );
}

/** Views with more about what a row of evidence names. */
const LEADS: Readonly<Record<string, string>> = {
  kernel: "kernels",
  operator: "operators",
  caller: "operators",
  call: "api-summary",
  module: "modules",
  range: "annotations",
};

function Led({ name, row }: { readonly name: string; readonly row: Readonly<Record<string, Value>> }) {
  const link = useLink();
  const value = row[name] ?? null;
  const values = Object.values(row);
  const text = valueText(value, { unit: unitOf(name) });
  const view = LEADS[name];
  if (view === undefined || typeof value !== "string" || value === "" || values.length < 2)
    return <>{text}</>;
  return <a href={link(view, { find: value })}>{text}</a>;
}

function evidenceRows(text: string): readonly Record<string, Value>[] {
  try {
    const rows: unknown = JSON.parse(text);
    if (!Array.isArray(rows)) return [];
    return rows.map((row: Record<string, unknown>) =>
      Object.fromEntries(
        Object.entries(row).map(([name, value]): [string, Value] => [
          name,
          value === null || typeof value !== "object" ? (value as Value) : JSON.stringify(value),
        ]),
      ),
    );
  } catch {
    return [];
  }
}

/** Names of values end with their unit. */
function unitOf(name: string): string {
  return /_(ns|bytes|ratio)$/.exec(name)?.[1] ?? "";
}
