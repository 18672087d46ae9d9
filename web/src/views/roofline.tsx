/** The roofline: operations per second over operations per byte, under the device's limits. */
import { useMemo } from "preact/hooks";
import { numberText, ratioText, timeText } from "../format/units";
import { Answered } from "../parts/answered";
import { Choice } from "../parts/choice";
import { Walk } from "../parts/walk";
import { useWidth } from "../parts/width";
import { attainable, logScale, type Roof, ridge } from "../roofline/scale";
import type { Reply, RowOf } from "../source/source";
import { useAnswer, useChange, usePage } from "../state/page";
import { QuestionHead, QuestionRows, useParameters } from "./generic";

type RoofRow = RowOf<"roofline">;

const HEIGHT = 380;
const LEFT = 90;
const BOTTOM = 44;
/** Room for a roof's name above the highest one. */
const TOP = 26;
/** Room for the name of a roof, left of its ridge, because there are points right of it. */
const ROOF_NAME = 250;
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
            <RooflineChart reply={reply} />
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
  /** The memory whose bytes were counted; empty for a point from the formulas. */
  readonly memory: string;
}

/** The chart of an answer to `roofline`. */
export function RooflineChart({ reply }: { readonly reply: Reply<RoofRow> }) {
  const { address } = usePage();
  const change = useChange();
  const [place, width] = useWidth();
  const bound = BOUNDS.find((one) => one === address.state.get("bound")) ?? "all";
  const all = useMemo(() => pointsOf(reply.answer.rows), [reply]);
  const roofs = useMemo(() => roofsOf(reply.answer.rows), [reply]);
  const devices = [
    ...new Set(reply.answer.rows.flatMap((row) => (row.device_name ? [row.device_name] : []))),
  ];
  const points = bound === "all" ? all : all.filter((one) => one.row.bound === bound);
  if (all.length === 0)
    return <p class="note">No chart: no row has operations and bytes; the column note says why.</p>;
  const right = Math.max(width, 320) - 16;
  const x = logScale([...all.map((one) => one.intensity), ...roofs.map((one) => 2 * ridge(one))]);
  const y = logScale([...all.map((one) => one.rate), ...roofs.map((one) => one.peak)]);
  const across = (value: number) => LEFT + x.at(value) * (right - LEFT);
  const up = (value: number) => (1 - y.at(value)) * (HEIGHT - BOTTOM - TOP) + TOP;
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
      <div ref={place} />
      <Walk
        label="Roofline; the table has its numbers"
        marks={points.map((one) => ({ words: pointWords(one) }))}
      >
        {(at) => (
          <svg class="roofline" viewBox={`0 0 ${right + 16} ${HEIGHT}`} aria-hidden="true">
            {x.ticks.map((tick) => (
              <g key={`x${tick}`} class="tick">
                <line x1={across(tick)} x2={across(tick)} y1={TOP} y2={HEIGHT - BOTTOM} />
                <text x={across(tick)} y={HEIGHT - BOTTOM + 16} text-anchor="middle">
                  {tick >= 1 ? tick : Number(tick.toPrecision(1))}
                </text>
              </g>
            ))}
            {y.ticks.map((tick) => (
              <g key={`y${tick}`} class="tick">
                <line x1={LEFT} x2={right} y1={up(tick)} y2={up(tick)} />
                <text x={LEFT - 8} y={up(tick) + 4} text-anchor="end">
                  {numberText(tick, "flop/s").replace(/\.0+ /, " ")}
                </text>
              </g>
            ))}
            <text x={(right + LEFT) / 2} y={HEIGHT - 8} text-anchor="middle" class="axis-name">
              operations per byte
            </text>
            {roofs.map((roof) => (
              <g key={`${roof.name} ${roof.peak}`} class="roof">
                <polyline
                  points={[x.low, Math.min(Math.max(ridge(roof), x.low), x.high), x.high]
                    .map((one) => `${across(one)},${up(Math.max(attainable(roof, one), y.low))}`)
                    .join(" ")}
                />
              </g>
            ))}
            {points.map((one, place) => (
              <circle
                key={`${one.row.name} ${one.row.input_dims ?? ""} ${one.intensity} ${one.rate} ${one.memory}`}
                cx={across(one.intensity)}
                cy={up(one.rate)}
                r={3 + 22 * Math.sqrt(one.row.share_ratio ?? 0)}
                class={`point ${boundOf(one.row)}${one.memory === "" ? "" : " counted"}${place === at ? " at" : ""}`}
              >
                <title>{pointWords(one)}</title>
              </circle>
            ))}
            {roofs.map((roof) => (
              <text
                key={`${roof.name} ${roof.peak}`}
                class="roof-name"
                x={Math.max(across(ridge(roof)) - 6, LEFT + ROOF_NAME)}
                y={up(roof.peak) - 5}
                text-anchor="end"
              >
                {roof.name} {numberText(roof.peak, "flop/s")}
              </text>
            ))}
          </svg>
        )}
      </Walk>
      <p class="muted small">
        <span class="swatch point-compute" /> limited by computation <span class="swatch point-memory" /> by
        memory <span class="swatch point-elsewhere" /> by something else, or unknown. The area of a circle is
        its share of device time.
        {points.some((one) => one.memory !== "") &&
          " A hollow circle is what counters counted, over the bytes of the memory that it names."}
        {points.some(({ row, rate }) => rate > (row.peak_flop_per_s ?? rate)) &&
          " The column note says why a circle is above its roof: open its row."}
        {points.length >= MOST_POINTS && ` The ${MOST_POINTS} longest are drawn; the table has all.`}
      </p>
    </section>
  );
}

/** Whether there is anything to draw. */
export function hasPoints(reply: Reply<RoofRow>): boolean {
  return pointsOf(reply.answer.rows).length > 0;
}

function pointsOf(rows: readonly RoofRow[]): Point[] {
  const points = rows.flatMap((row) =>
    row.intensity && row.flop_per_s
      ? [{ row, intensity: row.intensity, rate: row.flop_per_s, memory: "" }, ...counted(row)]
      : counted(row),
  );
  return points.slice(0, MOST_POINTS);
}

const MEMORIES = [
  ["counted_dram_bytes", "DRAM"],
  ["counted_l2_bytes", "L2"],
  ["counted_l1_bytes", "L1"],
] as const;
/** Part of a row's time that must be measured for its formula's operations to be compared with counted bytes. */
const ALL = 0.99;

/** A row's operations over the counted bytes of each memory. */
function counted(row: RoofRow): Point[] {
  const part = row.measured_ratio ?? 0;
  const flops = row.counted_flops || (part >= ALL ? row.flops : null);
  if (!flops || !part || !row.device_ns) return [];
  const rate = flops / ((row.device_ns * part) / 1e9);
  return MEMORIES.flatMap(([column, memory]) => {
    const bytes = row[column];
    return bytes ? [{ row, intensity: flops / bytes, rate, memory }] : [];
  });
}

/** The roofs that limit a row, one for each element type and device. */
function roofsOf(rows: readonly RoofRow[]): Roof[] {
  const roofs = new Map<string, Roof & { readonly device: string }>();
  for (const row of rows) {
    if (!row.peak_flop_per_s || !row.peak_bytes_per_s) continue;
    if (row.bound !== "compute" && row.bound !== "memory") continue;
    const name = row.dtype ?? "several types";
    const roof = { name, peak: row.peak_flop_per_s, bandwidth: row.peak_bytes_per_s };
    roofs.set(`${name} ${roof.peak} ${roof.bandwidth}`, { ...roof, device: row.device_name ?? "" });
  }
  const all = [...roofs.values()];
  // A device has two peaks for a type: with tensor cores, and without.
  return all.map((roof) => {
    const other = all.find((one) => one.name === roof.name && one.device === roof.device && one !== roof);
    if (other === undefined) return roof;
    return { ...roof, name: `${roof.name} ${roof.peak > other.peak ? "on" : "without"} tensor cores` };
  });
}

function boundOf(row: RoofRow): string {
  return row.bound === "compute" || row.bound === "memory" ? row.bound : "elsewhere";
}

function pointWords({ row, intensity, rate, memory }: Point): string {
  return [
    `${row.name} ${row.input_dims ?? ""}${memory === "" ? "" : `, counted, ${memory}`}`,
    `${timeText(row.device_ns ?? 0)}, ${ratioText(row.share_ratio ?? 0)} of device time`,
    `${numberText(rate, "flop/s")} at ${numberText(intensity, "")} operations per byte`,
    row.attainable_ratio ? `${ratioText(row.attainable_ratio)} of what is attainable` : (row.note ?? ""),
  ].join("\n");
}
