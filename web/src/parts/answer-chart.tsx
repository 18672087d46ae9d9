/** The chart of any answer, if its declaration allows one. */
import { useCallback, useMemo } from "preact/hooks";
import type uPlot from "uplot";
import { colourOf } from "../format/parts";
import { numberText, tickText, timeText } from "../format/units";
import type { Reply, Row } from "../source/source";
import { addressText, changed } from "../state/address";
import { useDeclaration, useLink, usePage } from "../state/page";
import { type Chart, chartOf } from "../table/chart";
import { columnsOf, heads } from "../table/columns";
import { Bandwidth } from "./bandwidth";
import { Bars } from "./bars";
import { HeatMap } from "./heat-map";
import { ownChart } from "./own-charts";
import { axes, LINE_COLOURS, Plot } from "./plot";

const MOST_BARS = 10;
const MOST_SPANS = 4;

interface Props {
  readonly reply: Reply;
  /** The view that a bar links to; by default it filters the table of its own view. */
  readonly leads?: string;
}

export function AnswerChart({ reply, leads }: Props) {
  return (
    <>
      <MainChart reply={reply} leads={leads} />
      {reply.answer.question === "communication" && <Bandwidth reply={reply} />}
    </>
  );
}

function MainChart({ reply, leads }: { readonly reply: Reply; readonly leads: string | undefined }) {
  const { answer } = reply;
  const declared = useDeclaration(answer.question);
  const columns = useMemo(() => columnsOf(answer, declared), [answer, declared]);
  const chart = useMemo(
    () => chartOf(columns, answer.rows, declared?.chart ?? "columns"),
    [columns, answer, declared],
  );
  const own = ownChart(reply);
  if (own !== null) return own;
  if (chart.kind === "map") return <HeatMap reply={reply} />;
  if (chart.kind === "bars") return <LargestRows chart={chart} reply={reply} leads={leads} />;
  if (chart.kind === "lines") {
    const spans = [...new Set(answer.rows.map((row) => row.span ?? 0))].slice(0, MOST_SPANS);
    return (
      <>
        {spans.map((span) => (
          <OverTime
            key={span}
            chart={chart}
            rows={answer.rows.filter((row) => (row.span ?? 0) === span)}
            title={spans.length > 1 ? `Recording ${Number(span) + 1}` : ""}
          />
        ))}
      </>
    );
  }
  return null;
}

interface LargestProps {
  readonly chart: Chart & { kind: "bars" };
  readonly reply: Reply;
  readonly leads: string | undefined;
}

function LargestRows({ chart, reply, leads }: LargestProps) {
  const link = useLink();
  const { name, beside, value, share } = chart;
  const { address } = usePage();
  const labels = new Map(reply.labels[name.name]);
  const numbers = reply.answer.rows.flatMap((row) => {
    const number = row[value.name];
    return typeof number === "number" && number > 0 ? [{ row, number }] : [];
  });
  const largest = numbers.sort((a, b) => b.number - a.number).slice(0, MOST_BARS);
  const bars = largest.map(({ row, number }, place) => {
    const own = String(row[name.name] ?? "–");
    const others = beside.flatMap((one) => {
      const value = row[one.name];
      if (typeof value !== "number") return value ?? [];
      return one.name === "span" ? `recording ${value + 1}` : `${one.name} ${value}`;
    });
    const full = [own, ...others].join(", ");
    const ratio = share === undefined ? null : row[share.name];
    return {
      name: full === own ? (labels.get(own) ?? own) : full,
      full: `${place + 1}. ${full}`,
      value: number,
      beside: typeof ratio === "number" ? numberText(ratio, "ratio") : undefined,
      href:
        leads === undefined
          ? addressText(changed(address, { find: own, page: null }))
          : link(leads, { find: own }),
    };
  });
  const named = heads([value])[0] ?? value.name;
  const head = value.unit !== "ns" || /time$/.test(named) ? named : `${named} time`;
  return (
    <section class="card">
      <h2>
        {largest.length < numbers.length ? `The ${largest.length} largest of ${numbers.length}` : "All"} by{" "}
        {head}
      </h2>
      <Bars bars={bars} unit={value.unit} total={null} label={`Largest by ${head}`} />
    </section>
  );
}

interface OverTimeProps {
  readonly chart: Chart & { kind: "lines" };
  readonly rows: readonly Row[];
  readonly title: string;
}

function OverTime({ chart, rows, title }: OverTimeProps) {
  const { time, values, by } = chart;
  const lines = useMemo(() => linesOf(chart, rows), [chart, rows]);
  const options = useCallback(
    (): Omit<uPlot.Options, "width" | "height"> => ({
      scales: { x: { time: false } },
      axes: axes(
        (ns) => tickText(ns, "ns"),
        (value) => tickText(value, values[0]?.unit ?? ""),
      ),
      series: [
        { label: heads([time])[0] ?? "", value: (_, ns) => (ns === null ? "–" : timeText(ns)) },
        ...lines.names.map((name, index) => ({
          label: name,
          stroke: colourOf(LINE_COLOURS[index % LINE_COLOURS.length] ?? "--kernel"),
          width: 1.5,
          spanGaps: true,
          value: (_: uPlot, value: number | null) =>
            value === null ? "–" : numberText(value, values[0]?.unit ?? ""),
        })),
      ],
    }),
    [time, values, lines],
  );
  if (lines.names.length > LINE_COLOURS.length) {
    const what = by.map((one) => heads([one])[0]).join(" and ");
    return (
      <p class="note">
        No chart: {lines.names.length} lines, by {what}, could not be told apart.
      </p>
    );
  }
  return (
    <section class="card">
      {title !== "" && <h2>{title}</h2>}
      <Plot options={options} data={lines.data} height={220} label={`${lines.names.join(", ")} over time`} />
    </section>
  );
}

/** A line for each value and each group of rows with the same time. */
function linesOf(chart: Chart & { kind: "lines" }, rows: readonly Row[]) {
  const varying = chart.by.filter((one) => new Set(rows.map((row) => row[one.name])).size > 1);
  const times = [...new Set(rows.map((row) => Number(row[chart.time.name])))].sort((a, b) => a - b);
  const place = new Map(times.map((time, index) => [time, index]));
  const lines = new Map<string, (number | null)[]>();
  const titles = heads(chart.values);
  for (const row of rows) {
    const whose = varying.map((one) => `${one.name} ${row[one.name] ?? "–"}`).join(", ");
    chart.values.forEach((column, index) => {
      const title = titles[index] ?? column.name;
      const name = whose === "" ? title : chart.values.length > 1 ? `${title}, ${whose}` : whose;
      const line = lines.get(name) ?? times.map(() => null);
      const value = row[column.name];
      line[place.get(Number(row[chart.time.name])) ?? 0] = typeof value === "number" ? value : null;
      lines.set(name, line);
    });
  }
  return { names: [...lines.keys()], data: [times, ...lines.values()] as uPlot.AlignedData };
}
