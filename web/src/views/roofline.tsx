/** The roofline: operations a second over operations a byte, under what the device can do. */
import { useMemo } from "preact/hooks";
import { numberText, ratioText, timeText } from "../format/units";
import { Answered } from "../parts/answered";
import { Choice } from "../parts/choice";
import { attainable, logScale, type Roof, ridge } from "../roofline/scale";
import type { Reply, RowOf } from "../source/source";
import { useAnswer, useChange, usePage } from "../state/page";
import { QuestionHead, QuestionRows, useParameters } from "./generic";

type RoofRow = RowOf<"roofline">;

const WIDTH = 1000;
const HEIGHT = 380;
const LEFT = 90;
const BOTTOM = 44;
const MOST_POINTS = 300;
const BOUNDS = ["all", "compute", "memory"] as const;

export function RooflineView() {
  const asked = useAnswer("roofline", useParameters("roofline"));
  return (
    <>
      <QuestionHead question="roofline" />
      <Answered asked={asked}>
        {(reply) => (
          <>
            <Chart reply={reply} />
            <QuestionRows reply={reply} />
          </>
        )}
      </Answered>
    </>
  );
}

interface Point {
  readonly row: RoofRow;
  readonly intensity: number;
  readonly rate: number;
}

function Chart({ reply }: { readonly reply: Reply<RoofRow> }) {
  const { address } = usePage();
  const change = useChange();
  const bound = BOUNDS.find((one) => one === address.state.get("bound")) ?? "all";
  const all = useMemo(() => pointsOf(reply.answer.rows), [reply]);
  const roofs = useMemo(() => roofsOf(reply.answer.rows), [reply]);
  const devices = [
    ...new Set(reply.answer.rows.flatMap((row) => (row.device_name ? [row.device_name] : []))),
  ];
  const points = bound === "all" ? all : all.filter((one) => one.row.bound === bound);
  if (all.length === 0)
    return <p class="note">No chart: no row has operations and bytes; the column note says why.</p>;
  const x = logScale([...all.map((one) => one.intensity), ...roofs.map((one) => 2 * ridge(one))]);
  const y = logScale([...all.map((one) => one.rate), ...roofs.map((one) => one.peak)]);
  const across = (value: number) => LEFT + x.at(value) * (WIDTH - LEFT - 16);
  const up = (value: number) => (1 - y.at(value)) * (HEIGHT - BOTTOM - 12) + 12;
  return (
    <section class="card">
      <h2>
        {devices.join(", ") || "Unknown device"}{" "}
        <span class="plain">
          {roofs
            .map(
              (one) =>
                `${one.name}: ${numberText(one.peak, "flop/s")}, ${numberText(one.bandwidth, "bytes/s")}`,
            )
            .join(" · ")}
        </span>
        <Choice
          name="limited by"
          options={BOUNDS}
          chosen={bound}
          onChoose={(name) => change({ bound: name === "all" ? null : name })}
        />
      </h2>
      <svg
        class="roofline"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        role="img"
        aria-label="Roofline; the table has its numbers"
      >
        {x.ticks.map((tick) => (
          <g key={`x${tick}`} class="tick">
            <line x1={across(tick)} x2={across(tick)} y1={12} y2={HEIGHT - BOTTOM} />
            <text x={across(tick)} y={HEIGHT - BOTTOM + 16} text-anchor="middle">
              {tick >= 1 ? tick : Number(tick.toPrecision(1))}
            </text>
          </g>
        ))}
        {y.ticks.map((tick) => (
          <g key={`y${tick}`} class="tick">
            <line x1={LEFT} x2={WIDTH - 16} y1={up(tick)} y2={up(tick)} />
            <text x={LEFT - 8} y={up(tick) + 4} text-anchor="end">
              {numberText(tick, "flop/s").replace(/\.0+ /, " ")}
            </text>
          </g>
        ))}
        <text x={(WIDTH + LEFT) / 2} y={HEIGHT - 8} text-anchor="middle" class="axis-name">
          operations per byte
        </text>
        {roofs.map((roof) => (
          <g key={`${roof.name} ${roof.peak}`} class="roof">
            <polyline
              points={[x.low, Math.min(Math.max(ridge(roof), x.low), x.high), x.high]
                .map((one) => `${across(one)},${up(Math.max(attainable(roof, one), y.low))}`)
                .join(" ")}
            />
            <text x={WIDTH - 20} y={up(roof.peak) - 5} text-anchor="end">
              {roof.name}
            </text>
          </g>
        ))}
        {[...points].reverse().map((one) => (
          <circle
            key={`${one.row.name} ${one.row.input_dims ?? ""} ${one.intensity} ${one.rate}`}
            cx={across(one.intensity)}
            cy={up(one.rate)}
            r={3 + 22 * Math.sqrt(one.row.share_ratio ?? 0)}
            class={`point ${boundOf(one.row)}`}
          >
            <title>{pointWords(one)}</title>
          </circle>
        ))}
      </svg>
      <p class="muted small">
        <span class="swatch point-compute" /> limited by computation <span class="swatch point-memory" /> by
        memory <span class="swatch point-elsewhere" /> by something else, or unknown. The area of a circle is
        its share of device time.
        {points.length >= MOST_POINTS && ` The ${MOST_POINTS} longest are drawn; the table has all.`}
      </p>
    </section>
  );
}

function pointsOf(rows: readonly RoofRow[]): Point[] {
  const points = rows.flatMap((row) =>
    row.intensity && row.flop_per_s ? [{ row, intensity: row.intensity, rate: row.flop_per_s }] : [],
  );
  return points.slice(0, MOST_POINTS);
}

/** Roofs that bind a row, one for each element type and device. */
function roofsOf(rows: readonly RoofRow[]): Roof[] {
  const roofs = new Map<string, Roof>();
  for (const row of rows) {
    if (!row.peak_flop_per_s || !row.peak_bytes_per_s) continue;
    if (row.bound !== "compute" && row.bound !== "memory") continue;
    const name = row.dtype ?? "several types";
    const roof = { name, peak: row.peak_flop_per_s, bandwidth: row.peak_bytes_per_s };
    roofs.set(`${name} ${roof.peak} ${roof.bandwidth}`, roof);
  }
  return [...roofs.values()];
}

function boundOf(row: RoofRow): string {
  return row.bound === "compute" || row.bound === "memory" ? row.bound : "elsewhere";
}

function pointWords({ row, intensity, rate }: Point): string {
  return [
    `${row.name} ${row.input_dims ?? ""}`,
    `${timeText(row.device_ns ?? 0)}, ${ratioText(row.share_ratio ?? 0)} of device time`,
    `${numberText(rate, "flop/s")} at ${numberText(intensity, "")} operations per byte`,
    row.attainable_ratio ? `${ratioText(row.attainable_ratio)} of what is attainable` : (row.note ?? ""),
  ].join("\n");
}
