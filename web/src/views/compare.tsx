/** Two recordings: each part before and after, its change, and how certain that is. */

import { PARTS } from "../format/parts";
import { NOT_MEASURED, ratioText, timeText } from "../format/units";
import { Answered } from "../parts/answered";
import { ColumnsChart } from "../parts/columns-chart";
import { Cut } from "../parts/cut";
import { IntervalChart } from "../parts/interval-chart";
import { Missing } from "../parts/missing";
import { Merged, stepColumns } from "../parts/step-columns";
import type { Recording, RowOf } from "../source/source";
import { useAnswer, useChange, usePage } from "../state/page";
import { intervals } from "../table/intervals";
import { QuestionHead, QuestionRows, useParameters } from "./generic";
import { alike, areAlike } from "./list";

type Change = RowOf<"diff">;

const MOST = 14;
const MOST_STEPS = 100;

export function CompareView() {
  const { recordings } = usePage();
  return (
    <>
      <QuestionHead question="diff" />
      {recordings.length < 2 ? <OnlyOne /> : <Comparison recordings={recordings} />}
    </>
  );
}

function OnlyOne() {
  const { source } = usePage();
  const command = `stepscope ${source.kind === "report" ? "report" : "view"} BEFORE --compare AFTER`;
  return (
    <Missing
      message="There is one recording here, and a comparison needs two."
      hint={
        <>
          Give both: <code>{command}</code>
        </>
      }
    />
  );
}

function Comparison({ recordings }: { readonly recordings: readonly Recording[] }) {
  const { address } = usePage();
  const change = useChange();
  const places = new Map(recordings.map((one, place) => [one.id, place]));
  const [first] = alike(recordings) ?? recordings;
  const before = recordings[places.get(address.state.get("before") ?? "") ?? -1] ?? first;
  const later = recordings.slice((places.get(before?.id ?? "") ?? 0) + 1);
  const after =
    later.find((one) => one.id === address.state.get("after")) ??
    later.find((one) => before !== undefined && areAlike(before, one)) ??
    later[0];
  const asked = useAnswer("diff", useParameters("diff"), [before?.id ?? "", after?.id ?? ""]);
  const pick = (name: string, chosen: Recording | undefined, of: readonly Recording[]) => (
    <label>
      {name}{" "}
      <select value={chosen?.id ?? ""} onChange={(event) => change({ [name]: event.currentTarget.value })}>
        {of.map((one) => (
          <option key={one.id} value={one.id}>
            {one.name}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <>
      <div class="forms">
        {pick("before", before, recordings.slice(0, -1))}
        {pick("after", after, later)}
      </div>
      <Answered asked={asked}>
        {(reply) => (
          <>
            <Changes rows={reply.answer.rows} />
            <ChangeIntervals rows={reply.answer.rows} />
            {before !== undefined && after !== undefined && <BothSteps before={before} after={after} />}
            <QuestionRows reply={reply} />
          </>
        )}
      </Answered>
    </>
  );
}

function Changes({ rows }: { readonly rows: readonly Change[] }) {
  const [total, ...parts] = rows;
  if (total === undefined) return null;
  // The first levels of a tree; deeper ones are in the table, below their parents.
  const drawn = parts.filter((row) => (row.depth ?? 0) <= 1).slice(0, MOST);
  const top = Math.max(...[total, ...drawn].flatMap((row) => [row.before_ns ?? 0, row.after_ns ?? 0]), 1);
  const wide = (ns: number | null | undefined) => ({
    width: `${(100 * (ns ?? 0)) / top}%`,
    minWidth: ns ? "" : 0,
  });
  return (
    <section class="card">
      <h2>
        {titleOf(total)}: {text(total.before_ns)} → {text(total.after_ns)}{" "}
        <span class={`verdict-word ${total.verdict}`}>{total.verdict}</span>{" "}
        <span class="plain">{total.change_ratio ? signed(total.change_ratio) : ""}</span>
      </h2>
      <ol class="changes">
        {[total, ...drawn].map((row) => (
          <li key={row.name} title={row.name ?? ""}>
            <span class="bar-name" style={{ paddingLeft: `${12 * (row.depth ?? 0)}px` }}>
              <Cut text={titleOf(row)} />
            </span>
            <span class="pair" aria-hidden="true">
              <span class="before" style={wide(row.before_ns)} />
              <span class="after" style={wide(row.after_ns)} />
            </span>
            <span class="bar-value">
              {row.change_ns ? `${row.change_ns > 0 ? "+" : ""}${timeText(row.change_ns)}` : "0"}
            </span>
            <span class={`verdict-word ${row.verdict}`}>{row.verdict}</span>
          </li>
        ))}
      </ol>
      <p class="muted small">
        <span class="swatch before" /> before <span class="swatch after" /> after. “unclear” where the 95 %
        interval of the change contains 0, “untested” where there is none.
      </p>
    </section>
  );
}

/** The certainty of each change. */
function ChangeIntervals({ rows }: { readonly rows: readonly Change[] }) {
  const columns = { value: "change_ns", low: "ci95_low_ns", high: "ci95_high_ns" };
  const known = rows.filter((row) => (row.depth ?? 0) <= 1 && typeof row.ci95_low_ns === "number");
  const shown = intervals(
    known.slice(0, MOST),
    columns,
    (row) => titleOf(row as Change),
    (row) => String(row.verdict ?? ""),
  );
  if (shown.length === 0) return null;
  return (
    <section class="card">
      <h2>
        Change of each part <span class="plain">with its 95 % interval; one that contains 0 is unclear</span>
      </h2>
      <IntervalChart rows={shown} unit="ns" signed label="Change of each part with its 95 % interval" />
    </section>
  );
}

/** The steps of both on one scale. */
function BothSteps({ before, after }: { readonly before: Recording; readonly after: Recording }) {
  const sides = [
    { name: "before", recording: before, asked: useAnswer("steps", {}, [before.id]) },
    { name: "after", recording: after, asked: useAnswer("steps", {}, [after.id]) },
  ].map((side) => ({
    ...side,
    rows: side.asked.state === "answered" ? side.asked.value.answer.rows : [],
    total: side.asked.state === "answered" ? side.asked.value.rows_total : 0,
  }));
  if (sides.some((side) => side.rows.length === 0)) return null;
  const reach = Math.max(...sides.flatMap((side) => side.rows.map((row) => row.total_ns ?? 0)), 1);
  return (
    <section class="card">
      <h2>Steps of both on one scale</h2>
      <div class="sides">
        {sides.map((side) => (
          <div key={side.name}>
            <p class="small">
              {side.name} <span class="muted">{side.recording.name}</span>
            </p>
            <ColumnsChart
              columns={stepColumns(side.rows, undefined, MOST_STEPS)}
              label={`Steps ${side.name}`}
              height={130}
              reach={reach}
            />
            <Merged steps={side.rows.length} total={side.total} most={MOST_STEPS} />
          </div>
        ))}
      </div>
      <ul class="legend">
        {PARTS.map((part) => (
          <li key={part.id} title={part.meaning}>
            <span class="swatch" style={{ background: `var(${part.colour})` }} />
            {part.title}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Parts of a step have the same names everywhere. */
function titleOf({ name }: Change): string {
  return PARTS.find((one) => one.id === name)?.title ?? name ?? "";
}

function text(ns: number | null | undefined): string {
  return ns === null || ns === undefined ? NOT_MEASURED : timeText(ns);
}

function signed(ratio: number): string {
  return `${ratio > 0 ? "+" : ""}${ratioText(ratio)}`;
}
