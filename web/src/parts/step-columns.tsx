/** Every step as a column of its parts, with the mean of those that count as a line. */
import { PARTS } from "../format/parts";
import type { RowOf } from "../source/source";
import { useAnswer, useLink } from "../state/page";
import { spotState } from "../timeline/address";
import { type ChartColumn, ColumnsChart } from "./columns-chart";

type StepRow = RowOf<"steps">;

/** More columns than this have no width. */
const MOST = 500;
/** Of the names below the columns and the space above them, in pixels. */
const ROOM = 21;

export function StepColumns({ height, mean }: { readonly height: number; readonly mean: number }) {
  const steps = useAnswer("steps");
  const doors = useDoors();
  // Its room is kept until it is there: what stands below would move.
  if (steps.state === "waiting") return <div style={{ height: `${height + ROOM}px` }} />;
  if (steps.state !== "answered" || steps.value.answer.rows.length < 2) return null;
  const { rows } = steps.value.answer;
  return (
    <ColumnsChart
      columns={stepColumns(rows.slice(0, MOST), doors)}
      label={`Step times of ${rows.length} steps`}
      height={height}
      mean={mean}
    />
  );
}

/** Where the timeline shows a step. */
export function useDoors(): (row: StepRow) => string | undefined {
  const link = useLink();
  return ({ start_ns, total_ns }) =>
    typeof start_ns === "number" && total_ns
      ? link("timeline", spotState({ from: start_ns, to: start_ns + total_ns }))
      : undefined;
}

export function stepColumns(
  rows: readonly StepRow[],
  doorOf: (row: StepRow) => string | undefined = () => undefined,
): ChartColumn[] {
  const ranks = new Set(rows.map((row) => row.rank)).size;
  const spans = new Set(rows.map((row) => row.span)).size;
  const named = new Map<string, number>();
  return rows.map((row) => {
    const name =
      ranks > 1 ? `rank ${row.rank}${rows.length > ranks ? `, step ${row.step}` : ""}` : `step ${row.step}`;
    const before = named.get(name) ?? 0;
    named.set(name, before + 1);
    return {
      name: before > 0 && spans > 1 ? `${name}, recording ${(row.span ?? 0) + 1}` : name,
      parts: PARTS.map((part) => ({
        title: part.title,
        colour: part.colour,
        value: Number((row as Record<string, unknown>)[`${part.id}_ns`] ?? 0),
      })),
      aside: row.left_out ? `${row.left_out}: in no mean` : undefined,
      href: doorOf(row),
    };
  });
}
