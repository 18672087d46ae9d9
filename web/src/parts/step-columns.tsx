/** Every step as a column of its parts, with a line for the mean of those that count. */
import { PARTS } from "../format/parts";
import { countText } from "../format/units";
import type { RowOf } from "../source/source";
import { useAnswer, useLink } from "../state/page";
import { slowest } from "../table/slowest";
import { spotState } from "../timeline/address";
import { type ChartColumn, ColumnsChart } from "./columns-chart";

type StepRow = RowOf<"steps">;

/** More columns would be too narrow. */
export const MOST_COLUMNS = 500;
/** Space for the names below the columns and above them, in pixels. */
const ROOM = 21;

export function StepColumns({ height, mean }: { readonly height: number; readonly mean: number }) {
  const steps = useAnswer("steps");
  const doors = useDoors();
  // Its space is reserved until it is loaded, so that what follows does not move.
  if (steps.state === "waiting") return <div style={{ height: `${height + ROOM}px` }} />;
  if (steps.state !== "answered" || steps.value.answer.rows.length < 2) return null;
  const { rows } = steps.value.answer;
  return (
    <div>
      <ColumnsChart
        columns={stepColumns(rows, doors)}
        label={`Step times of ${rows.length} steps`}
        height={height}
        mean={mean}
      />
      <Merged steps={rows.length} total={steps.value.rows_total} />
    </div>
  );
}

interface MergedProps {
  readonly steps: number;
  /** The number of steps in the answer; a report may hold fewer. */
  readonly total?: number;
  readonly most?: number;
}

/** Notes that a column stands for several steps, or that some have none. */
export function Merged({ steps, total = steps, most = MOST_COLUMNS }: MergedProps) {
  const each = Math.ceil(steps / most);
  if (each <= 1 && total <= steps) return null;
  return (
    <p class="muted small">
      {each > 1 && `Each column is the slowest of ${countText(each)} steps in a row. `}
      {total > steps && `These are the first ${countText(steps)} of ${countText(total)} steps.`}
    </p>
  );
}

/** The link to a step on the timeline. */
export function useDoors(): (row: StepRow) => string | undefined {
  const link = useLink();
  return ({ start_ns, total_ns }) =>
    typeof start_ns === "number" && total_ns
      ? link("timeline", spotState({ from: start_ns, to: start_ns + total_ns }))
      : undefined;
}

/** A column for each step, or, for more than `most`, one for the slowest of several adjacent steps. */
export function stepColumns(
  rows: readonly StepRow[],
  doorOf: (row: StepRow) => string | undefined = () => undefined,
  most = MOST_COLUMNS,
): ChartColumn[] {
  const ranks = new Set(rows.map((row) => row.rank)).size;
  const spans = new Set(rows.map((row) => row.span)).size;
  const named = new Map<string, number>();
  const nameOf = (row: StepRow) =>
    ranks > 1 ? `rank ${row.rank}${rows.length > ranks ? `, step ${row.step}` : ""}` : `step ${row.step}`;
  return slowest(rows, most).map(({ row, first, last, count }) => {
    const name = nameOf(row);
    const before = named.get(name) ?? 0;
    named.set(name, before + 1);
    return {
      name: before > 0 && spans > 1 ? `${name}, recording ${(row.span ?? 0) + 1}` : name,
      parts: PARTS.map((part) => ({
        title: part.title,
        colour: part.colour,
        value: Number((row as Record<string, unknown>)[`${part.id}_ns`] ?? 0),
      })),
      of: count > 1 ? `the slowest of ${countText(count)}, ${nameOf(first)} to ${nameOf(last)}` : undefined,
      aside: row.left_out ? `${row.left_out}: in no mean` : undefined,
      href: doorOf(row),
    };
  });
}
