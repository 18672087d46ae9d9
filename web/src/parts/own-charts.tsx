/** Charts of questions whose columns belong together: sums of parts, and intervals. */
import { useCallback } from "preact/hooks";
import type uPlot from "uplot";
import { colourOf, PHASES } from "../format/parts";
import { bytesText, countText, NOT_MEASURED, numberText, tickText } from "../format/units";
import type { Reply, Row, Value } from "../source/source";
import { type Columns, intervals } from "../table/intervals";
import { ColumnsChart } from "./columns-chart";
import { Durations } from "./durations";
import { IntervalChart } from "./interval-chart";
import { axes, LINE_COLOURS, Plot } from "./plot";

/** Columns of a row that add up: the stacks of a column chart. */
interface Stack {
  /** A column that only the charted form of the answer has. */
  readonly needs: string;
  readonly title: string;
  /** Columns, of numbers or texts, that identify a column of the chart. */
  readonly by: readonly string[];
  readonly parts: readonly (readonly [column: string, title: string, colour: string])[];
  /** The column with the number of items that a row sums, if the chart shows one item. */
  readonly over?: string;
}

const MOST_COLUMNS = 500;
const MOST_INTERVALS = 40;

/** Describes what rows differ in, or else what they all are. */
export function namer(rows: readonly Row[], by: readonly string[]): (row: Row) => string {
  const there = by.filter((one) => rows.some((row) => row[one] !== null && row[one] !== undefined));
  const varying = there.filter((one) => new Set(rows.map((row) => row[one])).size > 1);
  const words = there.filter((one) => rows.some((row) => typeof row[one] === "string"));
  const named = varying.length > 0 ? varying : words.length > 0 ? words.slice(0, 1) : there.slice(-1);
  const text = (one: string, value: Value | undefined) =>
    typeof value !== "number"
      ? String(value)
      : one.endsWith("_bytes")
        ? bytesText(value)
        : `${one.replace(/^group_size$/, "group of")} ${value}`;
  return (row) => {
    const known = named.filter((one) => row[one] !== null && row[one] !== undefined);
    return known.map((one) => text(one, row[one])).join(", ") || NOT_MEASURED;
  };
}

/** Columns that tell collectives of an answer apart, in any of its forms. */
export const COLLECTIVE = [
  "operation",
  "module",
  "parallelism",
  "group",
  "group_size",
  "dtype",
  "message_bytes",
  "rank",
  "step",
] as const;

const STACKS: Readonly<Record<string, Stack>> = {
  "rank-overview": {
    needs: "computation_ns",
    title: "Device time of each rank, per step; one that communicates long may wait for the others",
    by: ["rank"],
    over: "steps",
    parts: [
      ["computation_ns", "computation", "--kernel"],
      ["exposed_communication_ns", "exposed communication", "--communication"],
      ["exposed_copy_ns", "exposed copies", "--memcpy"],
      ["idle_ns", "idle", "--other"],
    ],
  },
  "device-time": {
    needs: "computation_ns",
    title: "Time of each device",
    by: ["rank", "device", "step"],
    parts: [
      ["computation_ns", "computation", "--kernel"],
      ["exposed_communication_ns", "exposed communication", "--communication"],
      ["exposed_copy_ns", "exposed copies", "--memcpy"],
      ["idle_ns", "idle", "--other"],
    ],
  },
  communication: {
    needs: "wait_ns",
    title: "Where it was measured: waiting for the last rank, and transfer, summed over ranks",
    by: COLLECTIVE,
    parts: [
      ["transfer_ns", "transfer", "--kernel"],
      ["wait_ns", "wait for the last rank", "--communication"],
    ],
  },
  stragglers: {
    needs: "input_ns",
    title: "What the others waited, by the rank that was late and what it did longer",
    by: ["rank", "step"],
    parts: [
      ["input_ns", "DataLoader", "--dataloader"],
      ["computation_ns", "computation", "--kernel"],
      ["copies_ns", "copies", "--memcpy"],
      ["communication_ns", "other collectives", "--communication"],
      ["garbage_collection_ns", "garbage collection", "--memset"],
      ["compilation_ns", "compilation", "--accent"],
      ["host_ns", "host", "--cpu-exec"],
      ["profiler_ns", "profiler", "--runtime"],
      ["not_recorded_ns", "nothing recorded", "--other"],
      ["before_ns", "before its recording", "--muted"],
    ],
  },
  phases: {
    needs: "residual_ns",
    title: "Phases over the run",
    by: ["rank", "step"],
    parts: PHASES.map((one) => [`${one.id}_ns`, one.title, one.colour] as const),
  },
};

/** Values with intervals: the first of a question's for which its answer has columns. */
interface Spread {
  readonly columns: Columns;
  readonly unit: string;
  readonly title: string;
  /** Columns that name a row, with its rank if there are several. */
  readonly name: readonly string[];
  readonly beside: (row: Row) => string;
}

const counted = (column: string, what: string) => (row: Row) =>
  typeof row[column] === "number" ? `${countText(Number(row[column]))} ${what}` : "";

const SPREADS: Readonly<Record<string, readonly Spread[]>> = {
  inline: [
    {
      columns: { value: "mean_ns", low: "ci95_low_ns", high: "ci95_high_ns" },
      unit: "ns",
      title: "Mean times with their 95 % intervals",
      name: ["label", "clock"],
      beside: counted("n", "measurements"),
    },
    {
      columns: { value: "average_ns", high: "max_ns" },
      unit: "ns",
      title: "Average over ranks, and up to the slowest rank",
      name: ["label", "clock"],
      beside: counted("ranks", "ranks"),
    },
  ],
  phases: [
    {
      columns: { value: "mean_ns", high: "p95_ns" },
      unit: "ns",
      title: "Mean of each phase on the host, and up to the 95th percentile of the kept steps",
      name: ["phase"],
      beside: counted("steps", "steps"),
    },
  ],
  throughput: [
    {
      columns: { value: "per_second", low: "ci95_low_per_second", high: "ci95_high_per_second" },
      unit: "count",
      title: "Per second: means with their 95 % intervals",
      name: ["name"],
      beside: counted("steps", "steps"),
    },
  ],
};

/** The chart of a question that has its own; null for questions with the generic one. */
export function ownChart(reply: Reply) {
  const { question, columns, rows } = reply.answer;
  const has = (column: string) => columns.some((one) => one.name === column);
  if (question === "durations") return <Durations reply={reply} />;
  const stack = STACKS[question];
  if (stack !== undefined && has(stack.needs) && rows.some((row) => isStacked(stack, row)))
    return <StackedRows stack={stack} rows={rows} />;
  const spread = SPREADS[question]?.find((one) => has(one.columns.value) && has(one.columns.high));
  if (spread !== undefined) {
    const severalRanks = new Set(rows.map((row) => row.rank)).size > 1;
    const name = (row: Row) => {
      const rank = severalRanks && typeof row.rank === "number" ? [`rank ${row.rank}`] : [];
      return [...spread.name.flatMap((one) => row[one] || []), ...rank].join(", ");
    };
    const shown = intervals(rows, spread.columns, name, spread.beside);
    return (
      <section class="card">
        <h2>{spread.title}</h2>
        <IntervalChart rows={shown.slice(0, MOST_INTERVALS)} unit={spread.unit} label={spread.title} />
        {shown.length > MOST_INTERVALS && (
          <p class="muted small">The first {MOST_INTERVALS}; the table has all.</p>
        )}
      </section>
    );
  }
  return question === "scaling" ? <Scaling rows={rows} /> : null;
}

/** Whether a row has anything to draw. */
function isStacked(stack: Stack, row: Row): boolean {
  return stack.parts.some(([column]) => typeof row[column] === "number" && Number(row[column]) > 0);
}

function StackedRows({ stack, rows }: { readonly stack: Stack; readonly rows: readonly Row[] }) {
  const summed = (row: Row, column: string) => {
    const over = stack.over === undefined ? 1 : Number(row[stack.over]) || 1;
    return Number(row[column] ?? 0) / over;
  };
  const measured = rows.filter((row) => stack.parts.some(([column]) => typeof row[column] === "number"));
  const used = stack.parts.filter(([column]) => measured.some((row) => summed(row, column) > 0));
  const nameOf = namer(measured, stack.by);
  const columns = measured.slice(0, MOST_COLUMNS).map((row) => ({
    name: nameOf(row),
    parts: used.map(([column, title, colour]) => ({
      title,
      colour,
      value: Math.max(0, summed(row, column)),
    })),
  }));
  return (
    <section class="card">
      <h2>{stack.title}</h2>
      <ColumnsChart columns={columns} label={stack.title} height={160} />
      <ul class="legend">
        {used.map(([column, title, colour]) => (
          <li key={column}>
            <span class="swatch" style={{ background: `var(${colour})` }} />
            {title}
          </li>
        ))}
      </ul>
      {measured.some((row) => used.some(([column]) => summed(row, column) < 0)) && (
        <p class="muted small">What a row has less of than others, a value below 0, is not drawn.</p>
      )}
      {measured.length > MOST_COLUMNS && (
        <p class="muted small">The first {MOST_COLUMNS}; the table has all.</p>
      )}
    </section>
  );
}

/** Efficiency over the number of ranks, a line per label. */
function Scaling({ rows }: { readonly rows: readonly Row[] }) {
  const ranks = [...new Set(rows.map((row) => Number(row.ranks)))].sort((a, b) => a - b);
  const labels = [...new Set(rows.map((row) => String(row.label)))].slice(0, LINE_COLOURS.length);
  const mode = String(rows[0]?.mode ?? "");
  const data = [
    ranks,
    ...labels.map((label) =>
      ranks.map((count) => {
        const found = rows.find((row) => row.label === label && Number(row.ranks) === count);
        return typeof found?.efficiency_ratio === "number" ? found.efficiency_ratio : null;
      }),
    ),
    ranks.map(() => 1),
  ] as uPlot.AlignedData;
  const options = useCallback(
    (): Omit<uPlot.Options, "width" | "height"> => ({
      scales: {
        x: { time: false, distr: 3, log: 2 },
        y: { range: (_, __, high) => [0, Math.max(1.05, high)] },
      },
      axes: axes(
        (count) => `${count} ${count === 1 ? "rank" : "ranks"}`,
        (ratio) => tickText(ratio, "ratio"),
      ),
      series: [
        { label: "ranks" },
        ...labels.map((label, index) => ({
          label,
          stroke: colourOf(LINE_COLOURS[index] ?? "--kernel"),
          width: index === 0 ? 3 : 1.5, // the first is the entire iteration
          points: { show: true, size: 7 },
          value: (_: uPlot, value: number | null) => (value === null ? "–" : numberText(value, "ratio")),
        })),
        { label: "ideal", stroke: colourOf("--muted"), dash: [4, 4], points: { show: false } },
      ],
    }),
    [labels.join("\n")],
  );
  if (ranks.length < 2) return null;
  return (
    <section class="card">
      <h2>
        {mode === "" ? "Scaling efficiency" : `Efficiency of ${mode} scaling`}{" "}
        <span class="plain">of the iteration, and of its parts; the table has the 95 % intervals</span>
      </h2>
      <Plot options={options} data={data} height={240} label="Scaling efficiency over ranks" />
    </section>
  );
}
