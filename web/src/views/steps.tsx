/** Steps side by side, the parts of each, and their table. */

import { PARTS } from "../format/parts";
import { ratioText, timeText } from "../format/units";
import { Answered } from "../parts/answered";
import { ColumnsChart } from "../parts/columns-chart";
import { StackedBar } from "../parts/stack";
import { Merged, stepColumns, useDoors } from "../parts/step-columns";
import type { RowOf } from "../source/source";
import { useAnswer, useLink } from "../state/page";
import { QuestionHead, QuestionRows, useParameters } from "./generic";

type StepRow = RowOf<"steps">;

export function StepsView() {
  const asked = useAnswer("steps", useParameters("steps"));
  return (
    <>
      <QuestionHead question="steps" />
      <Answered asked={asked}>
        {(reply) => (
          <>
            <Chart rows={reply.answer.rows} total={reply.rows_total} />
            <QuestionRows reply={reply} />
          </>
        )}
      </Answered>
    </>
  );
}

function Chart({ rows, total }: { readonly rows: readonly StepRow[]; readonly total: number }) {
  const link = useLink();
  const doors = useDoors();
  const [only] = rows;
  if (rows.length === 1 && only !== undefined) {
    const parts = PARTS.map((part) => ({ ...part, ns: partOf(only, part.id) }));
    return (
      <section class="card">
        <StackedBar parts={parts} total={only.total_ns ?? 1} />
      </section>
    );
  }
  const isMean = rows.some((row) => row.step === undefined);
  const columns = isMean
    ? stepColumns(rows, undefined, rows.length).map((one, index) => ({ ...one, name: meanName(rows, index) }))
    : stepColumns(rows, doors);
  return (
    <section class="card">
      <h2>
        {isMean ? "Mean steps" : "Steps"} <span class="plain">{isMean ? "" : spread(rows)}</span>
      </h2>
      <ColumnsChart columns={columns} label="The parts of each step" height={180} />
      {!isMean && <Merged steps={rows.length} total={total} />}
      <ul class="legend">
        {PARTS.filter((part) => rows.some((row) => (partOf(row, part.id) ?? 0) > 0)).map((part) => (
          <li key={part.id} title={part.meaning}>
            <span class="swatch" style={{ background: `var(${part.colour})` }} />
            <span>{part.title}</span>
          </li>
        ))}
      </ul>
      <p class="muted small">
        A moment belongs to the first of these that goes on.{" "}
        {columns.some((one) => one.aside !== undefined) && "Pale steps are in no mean. "}
        {isMean ? "" : "Press a step to see it on the timeline. "}
        <a href={link("overview")}>What they add up to</a>
      </p>
    </section>
  );
}

function meanName(rows: readonly StepRow[], index: number): string {
  const row = rows[index];
  const several = new Set(rows.map((one) => one.span)).size > 1;
  return `rank ${row?.rank}${several ? `, recording ${(row?.span ?? 0) + 1}` : ""}`;
}

function partOf(row: StepRow, part: string): number | null {
  const value = (row as Record<string, unknown>)[`${part}_ns`];
  return typeof value === "number" ? value : null;
}

/** The shortest and the longest step, and outliers. */
function spread(rows: readonly StepRow[]): string {
  const times = rows.flatMap((row) => (row.counted === false || !row.total_ns ? [] : [row.total_ns]));
  const ordered = [...times].sort((a, b) => a - b);
  const first = ordered[0];
  const last = ordered.at(-1);
  const median = ordered[Math.floor(ordered.length / 2)];
  if (first === undefined || last === undefined || !median) return "";
  const words = `${timeText(first)} to ${timeText(last)}, median ${timeText(median)}`;
  return last > 1.5 * median
    ? `${words}; the longest takes ${ratioText(last / median)} of the median`
    : words;
}
