/** The bandwidth of collectives: over the size of their messages, or as a bar per row. */
import { useCallback, useMemo } from "preact/hooks";
import type uPlot from "uplot";
import { colourOf } from "../format/parts";
import { bytesText, NOT_MEASURED, numberText, tickText } from "../format/units";
import type { Reply, RowOf } from "../source/source";
import { Bars } from "./bars";
import { COLLECTIVE, namer } from "./own-charts";
import { axes, LINE_COLOURS, Plot } from "./plot";

type Collective = RowOf<"communication">;

const MOST_BARS = 20;
/** Fewer sizes do not make a curve. */
const FEWEST_SIZES = 3;

export function Bandwidth({ reply }: { readonly reply: Reply<Collective> }) {
  const rows = reply.answer.rows.filter((row) => row.bus_bytes_per_s);
  const sizes = new Set(rows.map((row) => row.message_bytes ?? null));
  if (rows.length === 0) return null;
  const bounds = rows.filter((row) => row.bandwidth_over === "duration").length;
  return (
    <section class="card">
      <h2>
        Bus bandwidth{" "}
        <span class="plain">
          as nccl-tests defines it
          {bounds === rows.length
            ? "; over durations, which hold the wait too: lower bounds"
            : bounds > 0 && "; ≥ where the time holds the wait too: lower bounds"}
        </span>
      </h2>
      {sizes.size >= FEWEST_SIZES && !sizes.has(null) ? (
        <OverSize rows={rows} />
      ) : (
        <LargestFirst rows={rows} marked={bounds > 0} />
      )}
    </section>
  );
}

function LargestFirst({ rows, marked }: { readonly rows: readonly Collective[]; readonly marked: boolean }) {
  const nameOf = namer(rows, COLLECTIVE);
  const bars = rows.slice(0, MOST_BARS).map((row, place) => ({
    name: nameOf(row),
    full: `${place + 1}. ${nameOf(row)}`,
    value: row.bus_bytes_per_s ?? 0,
    beside: marked && row.bandwidth_over === "duration" ? "≥" : "",
  }));
  return (
    <>
      <Bars bars={bars} unit="bytes/s" total={null} label="Bus bandwidth of collectives" />
      {rows.length > MOST_BARS && <p class="muted small">The first {MOST_BARS}; the table has all.</p>}
    </>
  );
}

/** A line for each kind of collective, over the message size. */
function OverSize({ rows }: { readonly rows: readonly Collective[] }) {
  const { names, data } = useMemo(() => {
    const nameOf = namer(
      rows,
      COLLECTIVE.filter((one) => one !== "message_bytes"),
    );
    const sizes = [...new Set(rows.map((row) => row.message_bytes ?? 0))].sort((a, b) => a - b);
    const known = [...new Set(rows.map(nameOf))].slice(0, LINE_COLOURS.length);
    const lines = known.map((name) => {
      const own = new Map(
        rows.filter((row) => nameOf(row) === name).map((row) => [row.message_bytes, row.bus_bytes_per_s]),
      );
      return sizes.map((size) => own.get(size) ?? null);
    });
    return { names: known, data: [sizes, ...lines] as uPlot.AlignedData };
  }, [rows]);
  const options = useCallback(
    (): Omit<uPlot.Options, "width" | "height"> => ({
      scales: { x: { time: false, distr: 3, log: 2 }, y: { range: (_, __, high) => [0, high * 1.1 || 1] } },
      axes: axes(
        (size) => tickText(size, "bytes"),
        (rate) => tickText(rate, "bytes/s"),
      ),
      series: [
        { label: "message", value: (_, size) => (size === null ? NOT_MEASURED : bytesText(size)) },
        ...names.map((label, index) => ({
          label,
          stroke: colourOf(LINE_COLOURS[index] ?? "--kernel"),
          width: 1,
          spanGaps: true,
          points: { show: true, size: 7, fill: colourOf(LINE_COLOURS[index] ?? "--kernel") },
          value: (_: uPlot, rate: number | null) =>
            rate === null ? NOT_MEASURED : numberText(rate, "bytes/s"),
        })),
      ],
    }),
    [names],
  );
  return <Plot options={options} data={data} height={220} label="Bus bandwidth over the size of a message" />;
}
